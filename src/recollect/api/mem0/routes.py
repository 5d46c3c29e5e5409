"""All of mem0's endpoints."""

from __future__ import annotations

from fastapi import APIRouter

from recollect.api.mem0 import entities, exports, memories, profiles, projects, requests, webhooks

router = APIRouter()
for part in (memories, entities, requests, exports, projects, webhooks, profiles):
    router.include_router(part.router)
