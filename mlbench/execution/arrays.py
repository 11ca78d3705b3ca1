"""Arrays of any library, seen as NumPy's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlbench.errors import PluginError

if TYPE_CHECKING:
    import numpy as np

    from mlbench.contracts.graph import Array


def host_array(array: Array) -> np.ndarray:
    """Return an array as NumPy's, without a copy where its memory is the CPU's.

    Raises:
        TypeError: neither a NumPy array nor anything with ``__dlpack__``.
    """
    import numpy as np

    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    raise TypeError(f"expected a NumPy array or anything with __dlpack__, got {type(array).__name__}")


def check_outputs(outputs: object, graph: str) -> None:
    """Raise `PluginError` where an executable returned no mapping: most often it returned nothing."""
    if type(outputs) is not dict and not isinstance(outputs, Mapping):
        raise PluginError(
            f"the executable of graph {graph} returned a {type(outputs).__name__}, expected a mapping.",
            hint="Return a mapping from output names to arrays.",
        )
