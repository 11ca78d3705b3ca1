"""Converts an engine's reply into what LoadGen's binding accepts, or refuses it with a reason.

Any of it may be of any type, and any access to it may run the engine's code. It is read once, before the samples are
closed; from then on there are only tuples, exact arrays and integers, whose types nothing can change.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from mlbench.contracts.engine import Samples
from mlbench.contracts.reply_spec import ReplySpec
from mlbench.errors import one_line

_MOST_TOKENS = 2**31 - 1
"""LoadGen adds token counts up in 64 bits."""

_INTEGERS = {int}
_NAN = "NaN in the reply"


class UnsoundReplyError(Exception):
    """A reply does not have the required form."""

    def __init__(self, reason: str, positions: Sequence[int] | None = None) -> None:
        super().__init__(reason)
        self.positions = positions
        """Positions of the samples at fault among those the reply is for; None: all of them."""


Answers = tuple[np.ndarray | list[np.ndarray], list[int] | None]
"""Outputs and token counts that LoadGen's binding takes."""


def sample_ids(samples: Samples) -> tuple[int, ...]:
    """Return the ids of samples that an engine passes back; the identical tuple, if it is that one.

    Raises:
        TypeError: these are not samples.
        UnsoundReplyError: an id is not an integer; whatever else their own code raises.
    """
    if not isinstance(samples, Samples):
        raise TypeError(f"a {type(samples).__name__}, not Samples")
    ids = samples.ids
    if type(ids) is tuple and set(map(type, ids)) <= _INTEGERS:
        return ids
    return tuple(integer(id_, "sample id") for id_ in ids)


def name_samples(samples: Samples, ids: Sequence[int]) -> list[str]:
    """Return a name for samples that are not open: the engine's index for it, otherwise the id."""
    try:
        said = [one_line(integer(index, "index")) for index in islice(samples.indices, len(ids))]
    except Exception:  # the engine's index cannot be read
        said = []
    return said if len(said) == len(ids) else [f"with the id {id_}" for id_ in ids]


def integer(value: Any, name: str) -> int:
    """Return an integer of Python's or NumPy's as one of Python's.

    Raises:
        UnsoundReplyError: it is not an integer; bools and whole floats are refused too.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool | np.bool_):
        raise UnsoundReplyError(f"{name} is a {type(value).__name__}, expected an integer")
    try:
        return int(operator.index(value))
    except TypeError:
        raise UnsoundReplyError(f"{name} is a {type(value).__name__}, expected an integer") from None


class ReplyForm:
    """The form that the replies of a test have."""

    def __init__(self, spec: ReplySpec, *, wants_tokens: bool) -> None:
        self.shape = spec.shape
        self.dtype = np.dtype(spec.dtype)
        self._may_be_empty = spec.may_be_empty
        self._wants_tokens = wants_tokens

    def answers(self, count: int, outputs: Any, token_counts: Any) -> Answers:
        """Return the answers to ``count`` samples, contiguous and in arrays of their own class.

        Raises:
            UnsoundReplyError: they are invalid; whatever else their own code raises.
        """
        arrays = _arrays(outputs, count)
        if len(arrays) != count:
            raise UnsoundReplyError(f"{len(arrays)} outputs for {count} samples")
        counts = self._token_counts(count, token_counts)
        if isinstance(arrays, np.ndarray):
            self._check_whole(arrays)
            return np.ascontiguousarray(arrays), counts
        self._check_singly(arrays)
        return [np.ascontiguousarray(array) for array in arrays], counts

    def first_tokens(self, count: int, tokens: Any) -> np.ndarray:
        """Return the first tokens of ``count`` samples as integers, (count, 1 or more), contiguous.

        Raises:
            UnsoundReplyError: they are invalid; whatever else their own code raises.
        """
        array = _exact(tokens) if isinstance(tokens, np.ndarray) else np.array(tokens)
        if not array.ndim or len(array) != count:
            given = len(array) if array.ndim else "no row"
            raise UnsoundReplyError(f"first token of {given} samples given for {count}")
        if array.dtype.kind not in "iu" or not array.dtype.isnative:
            raise UnsoundReplyError(f"first token is {array.dtype}, expected an integer")
        if not array.size:
            raise UnsoundReplyError(f"empty first token, shape {array.shape[1:]}")
        return np.ascontiguousarray(array).reshape(count, -1)

    def _token_counts(self, count: int, token_counts: Any) -> list[int] | None:
        if token_counts is None:
            if self._wants_tokens:
                raise UnsoundReplyError("no token count, and this workload is judged by tokens")
            return None
        counts = [integer(each, "token count") for each in islice(iter(token_counts), count + 1)]
        if len(counts) != count or min(counts) < 1:
            raise UnsoundReplyError("token counts missing or below 1")
        if max(counts) > _MOST_TOKENS:
            raise UnsoundReplyError(f"token count {max(counts)} is more than any answer contains")
        return counts

    def _check_whole(self, outputs: np.ndarray) -> None:
        if wrong := self._wrong_form(outputs.shape[1:], outputs.dtype):
            raise UnsoundReplyError(wrong)
        if has_nan(outputs):
            raise UnsoundReplyError(_NAN, [place for place, output in enumerate(outputs) if np.isnan(output).any()])

    def _check_singly(self, outputs: Sequence[Any]) -> None:
        found = [(position, wrong) for position, output in enumerate(outputs) if (wrong := self._wrong_output(output))]
        if found:
            raise UnsoundReplyError(found[0][1], [position for position, _ in found])

    def _wrong_output(self, output: Any) -> str:
        if not isinstance(output, np.ndarray):
            return f"reply is a {type(output).__name__}, not a NumPy array"
        return self._wrong_form(output.shape, output.dtype) or (_NAN if has_nan(output) else "")

    def _wrong_form(self, shape: tuple[int, ...], dtype: np.dtype) -> str:
        if dtype != self.dtype:
            return f"wrong dtype {dtype}, expected {self.dtype}"
        if shape == self.shape:
            return ""
        if 0 in shape and not self._may_be_empty:
            return f"empty reply, shape {shape}"
        fits = len(shape) == len(self.shape) and all(
            want is None or want == size for want, size in zip(self.shape, shape, strict=True)
        )
        return "" if fits else f"wrong shape {shape}, expected {_format_shape(self.shape)}"


def has_nan(output: np.ndarray) -> bool:
    """Return whether one of the numbers is NaN."""
    return output.dtype.kind == "f" and bool(np.isnan(output).any())


def _arrays(outputs: Any, count: int) -> np.ndarray | list[Any]:
    """Return outputs as one array, or as a list of arrays; of an endless sequence, one too many."""
    if isinstance(outputs, np.ndarray):
        array = _exact(outputs)
        if not array.ndim:
            raise UnsoundReplyError(f"the outputs are an array without dimensions, for {count} samples")
        return array
    given = outputs if type(outputs) in (list, tuple) else islice(iter(outputs), count + 1)
    return [_exact(output) if isinstance(output, np.ndarray) else output for output in given]


def _exact(array: np.ndarray) -> np.ndarray:
    """Return a plain NumPy array: subclasses such as memory maps are read."""
    return array if type(array) is np.ndarray else np.array(array, subok=False)


def _format_shape(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
