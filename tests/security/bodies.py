"""What makes a request to each endpoint valid."""

from __future__ import annotations

from typing import Any

WEBHOOKS = "/api/workspaces/{workspaceId}/webhooks"
PROFILE = "/api/users/{userId}/profile"
NODE = "/api/users/{userId}/nodes/{memoryNodeId}"

# What makes a request valid, so that it is the id alone that it is refused for. An endpoint that
# takes an id and is not listed here fails the test: say what it takes.
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/api/user/{userId}/memory"): {"key": "kept", "value": "ben was here"},
    ("POST", "/api/user/{userId}/memory/append"): {"key": "list", "item": "ben was here"},
    ("PATCH", "/api/workspaces/{workspaceId}"): {"name": "ben was here"},
    ("POST", "/api/workspaces/{workspaceId}/members"): {"email": "ben@example.com", "role": "viewer"},
    ("PATCH", "/api/workspaces/{workspaceId}/members/{memberId}"): {"role": "viewer"},
    ("POST", "/api/workspaces/{workspaceId}/projects"): {"name": "ben was here"},
    ("PATCH", "/api/workspaces/{workspaceId}/projects/{projectId}"): {"name": "ben was here"},
    ("PATCH", "/api/companies/{companyId}"): {"name": "ben was here"},
    ("POST", "/api/companies/{companyId}/members"): {"email": "ben@example.com", "role": "member"},
    ("PATCH", "/api/companies/{companyId}/members/{memberId}"): {"role": "member"},
    ("POST", "/api/auth/keys"): {"name": "ben was here"},
    ("POST", "/api/auth/password"): {"new_password": "ben was here"},
    ("POST", "/api/workspaces"): {"name": "ben was here"},
    ("POST", "/api/companies"): {"name": "ben was here"},
    ("PATCH", "/api/profile"): {"full_name": "ben was here"},
    ("POST", "/api/jobs/{jobId}/cancel"): None,
    ("POST", "/api/jobs/{jobId}/retry"): None,
    ("POST", "/api/admin/jobs/{jobId}/cancel"): None,
    ("POST", "/api/admin/jobs/{jobId}/retry"): None,
    ("PUT", "/api/workspaces/{workspaceId}/schedule/{job}"): {"cron": "30 3 * * *"},
    ("POST", f"{WEBHOOKS}"): {"url": "http://127.0.0.1:9/ben"},
    ("PATCH", f"{WEBHOOKS}/{{webhookId}}"): {"description": "ben was here"},
    ("POST", f"{WEBHOOKS}/{{webhookId}}/secret"): None,
    ("POST", f"{WEBHOOKS}/{{webhookId}}/test"): None,
    ("POST", f"{WEBHOOKS}/{{webhookId}}/replay"): {"since": "2026-01-01T00:00:00Z"},
    ("POST", f"{WEBHOOKS}/{{webhookId}}/deliveries/{{deliveryId}}/replay"): None,
    ("POST", "/api/mail/messages/{messageId}/read"): None,
    ("PUT", "/api/mail/preferences"): {"muted": ["job.failed"]},
    ("POST", "/api/memories"): {"text": "ben was here", "user": "ben", "infer": False},
    ("POST", "/api/memories/search"): {"query": "ben was here"},
    ("POST", "/api/memories/context"): {"query": "ben was here"},
    ("PATCH", "/api/memories/{memoryId}"): {"text": "ben was here"},
    ("POST", "/api/memories/{memoryId}/restore"): None,
    ("POST", "/api/memories/{memoryId}/feedback"): {"feedback": "NEGATIVE"},
    **{
        (method, f"{place}/brain{path}"): body
        for place in ("/api/users/{userId}", "/api/companies/{companyId}")
        for method, path, body in (
            ("POST", "", {"memories": [{"slug": "motto", "content": "ben was here"}]}),
            ("PUT", "/{slug}", {"content": "ben was here"}),
            ("POST", "/{slug}/undo", None),
        )
    },
    ("POST", "/api/chats"): {
        "chats": [{"session": "ben", "messages": [{"role": "user", "content": "ben was here"}]}]
    },
    ("POST", "/extract-rules"): {"chat_history_ids": ["00000000-0000-4000-8000-000000000000"]},
    ("POST", "/api/rules/extract"): {},
    ("PATCH", "/api/rules/{ruleId}/status"): {"status": "rejected", "reason": "ben was here"},
    ("POST", "/api/rules/prompts"): {"name": "ben", "prompt_text": "ben was here"},
    ("PATCH", "/api/rules/prompts/{promptId}"): {"prompt_text": "ben was here"},
    ("POST", "/api/rules/prompts/{promptId}/try"): {
        "chat_history_ids": ["00000000-0000-4000-8000-000000000000"]
    },
    ("PUT", "/api/chats/consent"): {"granted": True},
    ("PUT", "/api/workspaces/{workspaceId}/rules/settings"): {"consent": "workspace"},
    ("POST", "/api/brain/tools/{tool}"): {"arguments": {}, "agent": "ben was here"},
    ("POST", "/api/brain/proposals/{proposalId}/approve"): None,
    ("POST", "/api/brain/proposals/{proposalId}/reject"): {"reason": "ben was here"},
    ("POST", "/api/brain/domains/{domain}"): {"fields": {}},
    ("PATCH", PROFILE): {"summary": "ben was here"},
    ("PUT", PROFILE): {"last_updated_by": "ben", "summary": "ben was here"},
    ("POST", f"{PROFILE}/restore"): {"version": 0},
    ("POST", f"{PROFILE}/undo"): None,
    ("POST", f"{PROFILE}/update"): None,
    ("POST", f"{PROFILE}/activity"): {"activities": [{"kind": "note", "content": "ben was here"}]},
    ("PUT", NODE): {"memory_type": "KEY_VALUE_STORE"},
    ("POST", f"{NODE}/store"): {"key": "kept", "value": "ben was here"},
    ("POST", f"{NODE}/retrieve"): {},
    ("POST", f"{NODE}/forget"): {},
    ("POST", "/api/profile/prompts"): {"prompt_text": "ben was here"},
    ("POST", "/api/profile/prompts/{promptVersion}/use"): None,
}
# Those that do not take plain JSON.
MEDIA_TYPES = {("PATCH", PROFILE): "application/merge-patch+json"}
QUERIES: dict[tuple[str, str], dict[str, str]] = {
    ("DELETE", "/api/user/{userId}/memory"): {"key": "kept"},
    ("GET", "/api/user/{userId}/memory/entry"): {"key": "kept"},
    ("DELETE", "/api/memories"): {"user": "ana"},
    ("GET", f"{PROFILE}/diff"): {"from": "0"},
}
# Under an id of one's own, a slug is a word like any other, and anybody may write it.
WORDS = {("PUT", "/api/companies/{companyId}/brain/{slug}")}
