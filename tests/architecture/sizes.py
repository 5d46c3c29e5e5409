"""Sizes beyond which a file or a function has stopped being easy to read. Run by ``make check``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60
ROOT = Path(__file__).resolve().parents[2]


def too_large(path: Path) -> list[str]:
    source = path.read_text()
    found = []
    if (lines := len(source.splitlines())) > MAX_FILE_LINES:
        found.append(f"{path.relative_to(ROOT)}: {lines} lines, at most {MAX_FILE_LINES}")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                found.append(f"{where}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}")
    return found


def main() -> int:
    paths = [path for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    found = [line for path in sorted(paths) for line in too_large(path)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
