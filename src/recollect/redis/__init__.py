"""Redis, where there is one: messages between processes, a shared rate limit, a cache. Never needed."""
