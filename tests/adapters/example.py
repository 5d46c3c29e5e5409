"""The example of docs/rules.md, as a program."""

from __future__ import annotations

EXAMPLE = """
import asyncio, json, sys
from recollect.adapters.memory_processor import SharedMemoryProcessor

async def main():
    return await SharedMemoryProcessor().process_chat_history(
        chat_history_id="session-1",
        messages=[{"role": "user", "content": "From now on always indent with tabs."}],
        user_id="USER",
    )

print(json.dumps(asyncio.run(main())))
"""
