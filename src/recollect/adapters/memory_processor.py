"""Rules out of chats inside another backend's process:

    from recollect.adapters.memory_processor import SharedMemoryProcessor

    found = await SharedMemoryProcessor().process_chat_history(
        chat_history_id="...", messages=[{"role": "user", "content": "..."}], user_id="..."
    )

It acts for the user named, with the settings of the environment, on the event loop that backend.py has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from recollect.adapters.backend import here
from recollect.bootstrap import Services
from recollect.rules import processor
from recollect.settings import Settings

__all__ = ["SharedMemoryProcessor"]


class SharedMemoryProcessor:
    async def process_chat_history(
        self, chat_history_id: UUID | str, messages: Sequence[Mapping[str, Any]], user_id: UUID | str
    ) -> dict[str, Any]:
        """The rules that a chat asks for, in ``rules``; they are kept as pending, with exact quotes."""

        async def call(services: Services) -> dict[str, Any]:
            processing = processor.SharedMemoryProcessor(
                services.tenancy.beside_requests(), services.histories, services.extractor
            )
            return await processing.process_chat_history(chat_history_id, messages, user_id)

        return await asyncio.wrap_future(here.get(Settings).call(call))
