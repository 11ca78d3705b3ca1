"""Arrays of any library, seen as NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
