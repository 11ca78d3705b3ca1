"""A user's own model, as a command or a suite asks for it: the name and the settings of its workload."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contracts.backend import GraphBackend
from mlbench.contracts.hookspecs import MODEL_FILE
from mlbench.discovery import Plugins
from mlbench.errors import UsageError

_ODD = re.compile(r"[^A-Za-z0-9_.+-]+")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class UserModel:
    """A model, and what its file leaves open."""

    file: Path
    name: str = ""
    """The name of its workload; empty: the file's."""
    shapes: Sequence[str] = ()
    """``input=8x3x224x224``."""
    dims: Sequence[str] = ()
    """``seq=128``, ``seq=16..512``."""
    inputs: Path | None = None
    reference: str = ""

    def workload_name(self, plugins: Plugins) -> str:
        """Return the name of its workload: the given one, or the file's, with its ending where that is another's name.

        Raises:
            UsageError: there is no such file, no plugin takes it, the name is an installed workload's, or the reference
                no backend that compiles graphs.
        """
        if self.reference and not isinstance(plugins.backend(self.reference), GraphBackend):
            raise UsageError(f"{self.reference} compiles no graphs, so it is no reference.", hint="See `mlbench list`.")
        if not self.file.exists():
            raise UsageError(f"there is no model {str(self.file)!r}.", hint="Name a file, or a Hugging Face folder.")
        path = Path(os.path.abspath(self.file))
        of_file = [_ODD.sub("-", each).strip("-.")[:_LONGEST_NAME] for each in (path.stem, path.name)]
        free = [each for each in of_file if each and each not in plugins.workloads]
        name = self.name or (free or ["model"])[0]
        if name in plugins.workloads:
            raise UsageError(f"{name!r} is an installed workload.", hint="Choose another name for the model: --name.")
        return plugins.workload_of(name, self.settings()).name

    def settings(self) -> Mapping[str, str]:
        """Return the settings of its workload, paths absolute: records keep them."""
        found = {
            MODEL_FILE: os.path.abspath(self.file),
            "workload.shapes": ",".join(self.shapes),
            "workload.dims": ",".join(self.dims),
            "workload.inputs": os.path.abspath(self.inputs) if self.inputs else "",
            "workload.reference": self.reference,
        }
        return {key: value for key, value in found.items() if value}
