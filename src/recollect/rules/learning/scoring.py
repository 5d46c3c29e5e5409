"""From features to a probability."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Model:
    weights: Mapping[str, float]
    threshold: float

    def logit(self, features: Mapping[str, float]) -> float:
        weights = self.weights
        return sum(weights[name] * value for name, value in features.items())

    def probability(self, features: Mapping[str, float]) -> float:
        return chance(self.logit(features))


def chance(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


@cache
def fitted() -> Model:
    """The model that comes with the package."""
    told = tomllib.loads((files(__package__) / "weights.toml").read_text("utf-8"))
    threshold = float(told.pop("threshold"))
    return Model({name: float(each["weight"]) for name, each in told.items()}, threshold)
