"""``python -m bench``: every suite, or those that are named."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from bench import brain, chats, foundation, jobs, mem0_beside, profile, retrieval, rules, scale
from bench.report import Figure, publish

SUITES = {
    "foundation": foundation.measure,
    "jobs": jobs.measure,
    "retrieval": retrieval.measure,
    "mem0": mem0_beside.measure,
    "scale": scale.measure,
    "brain": brain.measure,
    "profile": profile.measure,
    "rules": rules.measure,
    "chats": chats.measure,
}


def _run(measure: Callable[[], Coroutine[Any, Any, list[Figure]]]) -> list[Figure]:
    # The event loop that the server runs on.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


def main() -> int:
    wanted = sys.argv[1:] or list(SUITES)
    kept = [publish(name, _run(SUITES[name])) for name in wanted]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
