"""Values that no schema can describe are put right before a request is sent."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, **kwargs: Any) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # An idempotency key is new with each request; the same one with another body is refused.
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = uuid4().hex
    # A cursor is signed: only the server can make one.
    if case.query:
        case.query.pop("cursor", None)
    # Names have to be found in the DNS, which is outside.
    if "/webhooks" in case.path and isinstance(case.body, dict) and case.body.get("url"):
        case.body["url"] = "http://127.0.0.1:9/"
    # Nor can one describe a check digit.
    if isinstance(case.body, dict) and case.body.get("rut") is not None:
        case.body["rut"] = "12.345.678-5"
    _keep_json_storable(case.body)
    _say_something_in_chats(case.body)
    for part, put_right in _BY_PATH.items():
        if part in case.path:
            put_right(case)
    # Any JSON includes numbers beyond 64 bits.
    if case.path.startswith("/api/brain") and isinstance(case.body, dict):
        case.body |= {name: {"any": "thing"} for name in ("arguments", "fields") if name in case.body}


_PROFILE = "/api/users/{userId}/profile"
# A patch is a language of its own, and a document has a form of its own; of versions there may be none yet.
_PROFILE_BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "application/json-patch+json"): [{"op": "add", "path": "/any", "value": "thing"}],
    ("PATCH", "application/merge-patch+json"): {"any": "thing"},
    ("PUT", "application/json"): {"last_updated_by": "anybody"},
}


def _fit_the_profile(case: Any) -> None:
    # At which version a profile is, no schema knows; nor that a version and a moment exclude each other.
    for part in (case.headers, case.query):
        for name in ("If-Match", "If-None-Match", "version", "at", "since", "base", "path"):
            part.pop(name, None)
    if case.path == f"{_PROFILE}/diff":
        case.query = {"from": "0"}
    elif case.path == f"{_PROFILE}/restore":
        case.body = {"version": 0}
    elif case.path == f"{_PROFILE}/undo":
        case.body = {"reason": "any"}
    elif case.path == _PROFILE and (case.method, case.media_type) in _PROFILE_BODIES:
        case.body = _PROFILE_BODIES[case.method, case.media_type]
    elif case.path == f"{_PROFILE}/activity" and case.method == "POST":
        # Any JSON includes numbers beyond 64 bits.
        for each in case.body["activities"]:
            each.pop("data", None)


def _fit_the_node(case: Any) -> None:
    # What is stored and asked is of the form that the node's type says.
    if case.method == "PUT":
        case.body = {"memory_type": "KEY_VALUE_STORE"}
    elif case.method == "POST":
        case.body = {"key": "any"} | ({"value": "thing"} if case.path.endswith("/store") else {})


def _keep_json_storable(body: Any) -> None:
    # Any JSON includes numbers beyond 64 bits.
    for name in ("metadata", "extra_metadata"):
        if isinstance(body, dict) and body.get(name):
            body[name] = {"any": ["thing", 1, None]}


def _say_something_in_chats(body: Any) -> None:
    # Any JSON includes numbers beyond 64 bits.
    chats = body.get("chats", ()) if isinstance(body, dict) else ()
    for message in (each for chat in chats for each in chat["messages"]):
        if isinstance(message["content"], list):
            message["content"] = [{"type": "text", "text": "something"}]


def _say_which_facts(case: Any) -> None:
    # What the memories are is judged one by one; here is any JSON again.
    if isinstance(case.body, dict) and "memories" in case.body:
        case.body["memories"] = [{"slug": "any", "content": "thing"}, 1, None]
    # The last change is another one each time.
    if case.query:
        case.query.pop("change", None)


def _say_what_is_meant(case: Any) -> None:
    # A filter is a language of its own; tests/engine/test_filters.py speaks it.
    for part in (case.query, case.body):
        if isinstance(part, dict):
            part.pop("filters", None)
            # Random ids are nobody's workspaces.
            part.pop("workspace", None)
    # No schema can say that one of several parameters has to be there.
    if case.method == "DELETE" and case.path == "/api/memories":
        case.query = {**(case.query or {}), "all": "true"}
    # One message at least has to say something; what else they hold is any JSON again.
    if isinstance(case.body, dict) and case.body.get("messages"):
        case.body["messages"] = [{"role": "user", "content": "something"}]


_BY_PATH = {
    "/profile": _fit_the_profile,
    "/brain": _say_which_facts,
    "/nodes/": _fit_the_node,
    "/api/memories": _say_what_is_meant,
}
