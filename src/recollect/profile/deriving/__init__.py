"""A profile brought up to date without a model: pure functions from a document and what happened since."""

from __future__ import annotations

from recollect.profile.deriving.stating import Stated, stated
from recollect.profile.deriving.updating import derive

__all__ = ["Stated", "derive", "stated"]
