"""A row of every table, and what its tenant may do with it. A new table is described here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from psycopg import sql

VERBS = ("select", "insert", "update", "delete")


@dataclass(frozen=True)
class Tenant:
    id: UUID
    workspace: UUID
    company: UUID
    newcomer: UUID
    """A user in neither tenancy, for rows that would make them a member."""
    endpoint: UUID
    memory: UUID
    chat: UUID
    rule: UUID
    prompt: UUID
    node: str


LETTERS = str.maketrans("0123456789", "ghijklmnop")
TOMORROW = sql.SQL("now() + interval '1 day'")
A_MEMORY = (
    "insert into memories (owner_id, of_user, kind, text, terms, digest)"
    " values (%s, 'x', 'fact', 'x', '{1}', uuid_send(gen_random_uuid())) returning id"
)
NEXT_VERSION = "(select private.held_profile_version('{}') + 1)"
ANOTHER_MEMORY = "(select id from memories where owner_id = '{}' order by random() limit 1)"


# A row of each table that belongs to the tenant and is not there yet.
ROWS: dict[str, Callable[[Tenant], dict[str, Any]]] = {
    "public.profiles": lambda t: {"id": t.newcomer, "full_name": "New"},
    "public.companies": lambda _: {"id": uuid4(), "name": "New"},
    "public.company_members": lambda t: {"company_id": t.company, "user_id": t.newcomer},
    "public.workspaces": lambda _: {"id": uuid4(), "name": "New"},
    "public.workspace_members": lambda t: {"workspace_id": t.workspace, "user_id": t.newcomer},
    "public.projects": lambda t: {"workspace_id": t.workspace, "name": uuid4().hex},
    "public.user_memory": lambda t: {"user_id": t.id, "key": uuid4().hex, "value": "1"},
    "public.memory_nodes": lambda t: {
        "user_id": t.id,
        "memory_node_id": uuid4().hex,
        "memory_type": "KEY_VALUE_STORE",
    },
    "public.memory_data": lambda t: {
        "user_id": t.id,
        "memory_node_id": t.node,
        "key": uuid4().hex,
        "value": "1",
    },
    "public.memory_streams": lambda t: {"owner_id": t.id, "of_run": uuid4().hex},
    "public.memories": lambda t: {
        "owner_id": t.id,
        "of_user": "x",
        "kind": "turn",
        "text": "x",
        "terms": [1],
        "digest": uuid4().bytes,
    },
    "public.memory_vectors": lambda t: {
        "memory_id": t.memory,
        "owner_id": t.id,
        "model": uuid4().hex,
        "dimension": 2,
        "embedding": "[1,2]",
    },
    "public.memory_versions": lambda t: {
        "memory_id": t.memory,
        "version": uuid4().int >> 100,
        "owner_id": t.id,
        "text": "x",
        "metadata": "{}",
        "event": "ADD",
        "made_at": TOMORROW,
    },
    "public.memory_links": lambda t: {
        "memory_id": t.memory,
        "other_id": sql.SQL(ANOTHER_MEMORY.format(t.id)),
        "owner_id": t.id,
        "similarity": 0.9,
    },
    "public.user_brain": lambda t: {
        "user_id": t.id,
        "memory_id": uuid4().hex,
        "slug": uuid4().hex,
        "content": "x",
    },
    "public.company_brain": lambda t: {
        "company_id": t.company,
        "memory_id": uuid4().hex,
        "slug": uuid4().hex,
        "content": "x",
    },
    "public.brain_history": lambda t: {
        "company_id": t.company,
        "slug": uuid4().hex,
        "event": "ADD",
        "memory_id": "x",
    },
    "public.brain_intents": lambda t: {"company_id": t.company, "slug": uuid4().hex, "verb": "save"},
    "public.brain_proposals": lambda t: {
        "company_id": t.company,
        "slug": uuid4().hex,
        "content": "x",
        "agent": "x",
    },
    "public.user_memory_snapshots": lambda t: {
        "user_id": t.id,
        "version": sql.SQL(NEXT_VERSION.format(t.id)),
        "patch": "[]",
        "is_full_snapshot": True,
        "full_snapshot_content": "{}",
        "checksum": bytes(32),
    },
    "public.profile_updates": lambda t: {"user_id": t.id, "state": "failed"},
    "public.activities": lambda t: {"user_id": t.id, "kind": "note"},
    "public.profile_prompts": lambda _: {"version": uuid4().int >> 98, "prompt_text": "x"},
    "public.chat_histories": lambda t: {"user_id": t.id, "source": "api", "session": uuid4().hex},
    "public.chat_turns": lambda t: {
        "chat_id": t.chat,
        "user_id": t.id,
        "number": uuid4().int >> 98,
        "role": "user",
        "text": "x",
        "digest": uuid4().bytes,
    },
    "public.chat_consents": lambda t: {"user_id": t.id, "granted": True, "how": "x"},
    "public.rule_settings": lambda t: {"workspace_id": t.workspace},
    "public.extracted_rules": lambda t: {
        "workspace_id": t.workspace,
        "rule_text": "x",
        "source_session_ids": [uuid4()],
    },
    "public.rule_approvals": lambda t: {"rule_id": t.rule},
    "public.rule_approval_history": lambda t: {"rule_id": t.rule, "new_status": "approved"},
    "public.extraction_prompts": lambda t: {
        "workspace_id": t.workspace,
        "name": uuid4().hex,
        "prompt_text": "x",
    },
    "public.extraction_prompt_versions": lambda t: {
        "prompt_id": t.prompt,
        "version": uuid4().int >> 98,
        "prompt_text": "x",
        "is_active": True,
        "min_confidence": 0.7,
    },
    "public.extraction_runs": lambda t: {"user_id": t.id, "state": "done"},
    "public.memory_models": lambda _: {"name": uuid4().hex},
    "public.model_calls": lambda t: {
        "user_id": t.id,
        "workspace_id": t.workspace,
        "purpose": "memory.extract",
        "provider": "anthropic",
        "model": "x",
    },
    "public.mem0_requests": lambda t: {"user_id": t.id, "kind": "ADD"},
    "public.mem0_projects": lambda t: {"workspace_id": t.workspace, "custom_instructions": "New"},
    "private.admins": lambda t: {"user_id": t.newcomer},
    "private.passwords": lambda t: {"user_id": t.newcomer, "hash": "x"},
    "private.sign_in_links": lambda t: {"digest": uuid4().bytes, "user_id": t.id, "expires_at": TOMORROW},
    "private.sign_in_failures": lambda _: {"subject": uuid4().bytes},
    "private.sessions": lambda t: {
        "user_id": t.id,
        "digest": uuid4().bytes,
        "idle_timeout": "1 day",
        "expires_at": TOMORROW,
    },
    "private.api_keys": lambda t: {
        "user_id": t.id,
        "name": "new",
        "prefix": "rk_",
        "digest": uuid4().bytes,
        "scopes": ["read"],
    },
    "private.idempotency_keys": lambda t: {"user_id": t.id, "key": uuid4().hex, "fingerprint": b"x"},
    "jobs.runs": lambda t: {"user_id": t.id, "task": "x"},
    "jobs.schedules": lambda t: {"workspace_id": t.workspace, "job": uuid4().hex, "cron": "0 0 * * *"},
    "events.log": lambda t: {"user_id": t.id, "type": "bank.changed", "subject": uuid4().hex},
    "events.cursors": lambda _: {"name": uuid4().hex},
    "events.received": lambda _: {"source": "stripe", "id": f"evt_{uuid4().hex}"},
    "events.endpoints": lambda t: {
        "workspace_id": t.workspace,
        "url": "https://example.com/",
        "sealed_secret": b"x",
    },
    "events.deliveries": lambda t: {
        "endpoint_id": t.endpoint,
        "workspace_id": t.workspace,
        "position": uuid4().int >> 66,
        "type": "bank.changed",
        "subject": uuid4().hex,
        "payload": "{}",
    },
    "mem0.memories": lambda t: {
        "id": uuid4(),
        "vector": "[1,2]",
        "payload": json.dumps({"user_id": str(t.id), "of": {"owner": str(t.id), "digest": uuid4().hex}}),
    },
    "mem0.history": lambda t: {"memory_id": uuid4(), "owner_id": t.id, "event": "ADD"},
    "mail.messages": lambda t: {"user_id": t.id, "kind": "job.failed", "subject": "New", "body": "Text."},
    "mail.preferences": lambda t: {"user_id": t.id, "kind": f"kind.{uuid4().hex.translate(LETTERS)}"},
}

# What a tenant may do with rows of their own; all else is the service's.
OWN: dict[str, set[str]] = {
    "public.profiles": {"select", "update"},
    "public.companies": {"select", "update"},
    "public.company_members": set(VERBS),
    "public.workspaces": {"select", "update", "delete"},
    "public.workspace_members": set(VERBS),
    "public.projects": set(VERBS),
    "public.user_memory": set(VERBS),
    "public.memory_nodes": set(VERBS),
    "public.memory_data": set(VERBS),
    "public.memory_streams": {"select"},
    "public.memories": {"select", "update"},
    "public.memory_vectors": set(VERBS),
    "public.memory_versions": {"select"},
    "public.memory_links": {"select"},
    "public.user_brain": {"select"},
    "public.company_brain": {"select"},
    "public.brain_history": {"select"},
    "public.brain_intents": set(),
    "public.brain_proposals": {"select", "insert", "update"},
    "public.user_memory_snapshots": {"select", "insert"},
    "public.profile_updates": {"select"},
    "public.activities": {"select", "insert", "delete"},
    "public.profile_prompts": set(),
    "public.chat_histories": set(VERBS),
    "public.chat_turns": {"select", "insert", "delete"},
    "public.chat_consents": {"select", "insert"},
    "public.rule_settings": set(VERBS),
    "public.extracted_rules": {"select"},
    "public.rule_approvals": {"select"},
    "public.rule_approval_history": {"select"},
    "public.extraction_prompts": set(VERBS),
    "public.extraction_prompt_versions": {"select"},
    "public.extraction_runs": {"select"},
    "public.memory_models": set(),
    "public.model_calls": {"select"},
    "public.mem0_requests": set(VERBS),
    "public.mem0_projects": set(VERBS),
    "private.admins": set(),
    "private.passwords": set(),
    "private.sign_in_links": set(),
    "private.sign_in_failures": set(),
    "private.sessions": {"select", "delete"},
    "private.api_keys": {"select", "insert", "update"},
    "private.idempotency_keys": set(VERBS),
    "jobs.runs": {"select"},
    "jobs.schedules": set(VERBS),
    "events.log": {"select"},
    "events.cursors": set(),
    "events.received": set(),
    "events.endpoints": set(VERBS),
    "events.deliveries": {"select"},
    "mem0.memories": set(),
    "mem0.history": set(),
    "mail.messages": {"select", "update", "delete"},
    "mail.preferences": set(VERBS),
}

# The columns that say whose row it is; with them a row is found again.
OWNER_COLUMNS = (
    *("user_id", "owner_id", "tenant", "workspace_id", "company_id", "id", "subject", "name"),
    *("rule_id", "prompt_id"),
)
# A column that its owner may change, where not all are granted.
CHANGEABLE = {
    "public.profiles": "phone",
    "public.companies": "name",
    "public.company_members": "role",
    "public.workspaces": "name",
    "public.workspace_members": "role",
    "public.memories": "reason",
    "public.memory_vectors": "model",
    "public.memory_models": "since",
    "public.brain_proposals": "content",
    "public.brain_history": "reason",
    "private.api_keys": "name",
    "private.admins": "created_at",
    "private.sign_in_failures": "failed_at",
    "jobs.schedules": "cron",
    "mem0.memories": "payload",
    "mem0.history": "reason",
    "mail.messages": "read_at",
    "events.endpoints": "description",
}

# What makes a new company or workspace the tenant's.
OWNERSHIP = {
    "public.companies": "insert into company_members (role, company_id, user_id) values ('owner', %s, %s)",
    "public.workspaces": (
        "insert into workspace_members (role, workspace_id, user_id) values ('owner', %s, %s)"
    ),
}
