"""mem0's wire API, so that its clients work here as they are: ``MemoryClient(api_key, host=...)``.

Not part of our own description: mem0 describes it. What differs is in docs/mem0-dialect.md.
"""
