"""What the recipe wrote: the shipped weights, and what they reach."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile:
    """A folder with `mini.toml` and the file beside it."""

    folder: Path
    reference_top1: float
    """Percent, measured by the recipe in torch, fp32."""
    weights_sha256: str

    @property
    def weights(self) -> Path:
        """The shipped weights."""
        return self.folder / "weights.safetensors"


@cache
def load_mini_profile() -> MiniProfile:
    """Return the mini profile of this package."""
    folder = Path(__file__).parent / "mini"
    return MiniProfile(folder=folder, **tomllib.loads((folder / "mini.toml").read_text(encoding="utf-8")))
