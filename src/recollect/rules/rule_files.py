"""What a project's own files tell already: rule files, and the configurations of linters and formatters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MAX_FILES = 200
MAX_BYTES = 1_000_000
PATTERNS = (
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    "CONVENTIONS.md",
    ".claude/CLAUDE.md",
    ".claude/rules/**/*.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".cursor/rules/**/*.mdc",
    ".github/copilot-instructions.md",
    ".github/instructions/**/*.instructions.md",
    "ruff.toml",
    ".ruff.toml",
    "pyproject.toml",
    "setup.cfg",
    ".flake8",
    ".eslintrc*",
    "eslint.config.*",
    ".prettierrc*",
    "prettier.config.*",
    "biome.json*",
    ".editorconfig",
    "tsconfig.json",
    "rustfmt.toml",
    ".clang-format",
    ".golangci.y*ml",
    ".rubocop.yml",
    ".commitlintrc*",
    "commitlint.config.*",
    ".pre-commit-config.yaml",
)


def texts_in(folder: Path) -> list[str]:
    """The texts of such files, as far as they can be read; what is too long is cut."""
    return [text for path in islice(_paths(folder), MAX_FILES) if (text := _text(path))]


def texts_of(project: str | None, *, otherwise: Path) -> list[str]:
    """Those of the folder in which a chat was held; ``otherwise`` where this machine has no such folder."""
    folder = Path(project) if project else otherwise
    try:
        return texts_in(folder if folder.is_absolute() and folder.is_dir() else otherwise)
    except (OSError, ValueError):
        # A name that no folder can have, or one that is not for us to look into.
        return texts_in(otherwise)


def _paths(folder: Path) -> Iterator[Path]:
    for each in _up_to_the_root(folder.absolute()):
        for pattern in PATTERNS:
            yield from sorted(each.glob(pattern))


def _up_to_the_root(folder: Path) -> list[Path]:
    """A folder of a repository with all above it that are in it, too; any other alone."""
    above = [folder, *folder.parents]
    root = next((place for place, each in enumerate(above) if (each / ".git").exists()), 0)
    return above[: root + 1]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        # A folder of that name, or nothing that we may read: then it tells us nothing.
        return ""
