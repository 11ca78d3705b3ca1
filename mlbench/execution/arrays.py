"""Arrays of any library, seen as NumPy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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


def stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return arrays of one shape as a batch; one alone is not copied."""
    import numpy as np

    return arrays[0][np.newaxis] if len(arrays) == 1 else np.stack(arrays)


def copy_rows(array: Any, sources: Sequence[int], targets: Sequence[int]) -> None:
    """Copy rows of an array in place, NumPy's or torch's on the CPU: all sources are read before a target is written.

    One after another where that is the same, which spares a copy of all sources.
    """
    if set(sources).isdisjoint(targets):
        for source, target in zip(sources, targets, strict=True):
            array[target] = array[source]
    else:
        array[list(targets)] = array[list(sources)]


def check_outputs(outputs: object, graph: str) -> None:
    """Raise `PluginError` where an executable returned no mapping: most often it returned nothing."""
    if type(outputs) is not dict and not isinstance(outputs, Mapping):
        raise PluginError(
            f"the executable of graph {graph} returned a {type(outputs).__name__}, expected a mapping.",
            hint="Return a mapping from output names to arrays.",
        )
