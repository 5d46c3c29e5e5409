"""``python -m bench``: every suite, or those that are named."""

from __future__ import annotations

import asyncio
import sys

from bench import foundation
from bench.report import publish

SUITES = {"foundation": foundation.measure}


def main() -> int:
    wanted = sys.argv[1:] or list(SUITES)
    kept = [publish(name, asyncio.run(SUITES[name]())) for name in wanted]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
