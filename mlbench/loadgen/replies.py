"""The replies of one test: each is checked, and LoadGen hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident

import numpy as np

from mlbench.contracts.engine import Reply, Samples
from mlbench.contracts.model import ReplySpec
from mlbench.loadgen.completer import Completer
from mlbench.loadgen.ledger import Ledger
from mlbench.loadgen.token_check import token_check

_SMALL_BYTES = 4096
_SEEN_TOGETHER = 256


class CheckedReply(Reply):
    """Checks form, numbers and count of every reply. What is wrong goes into the ledger, and is never raised.

    One small sample at a time, answered on LoadGen's own thread, takes a path of its own: there LoadGen's share is a
    few microseconds, and each of ours shows. Its numbers are looked at later, many replies together.
    """

    def __init__(self, spec: ReplySpec, ledger: Ledger, completer: Completer, *, wants_tokens: bool) -> None:
        self._shape = spec.shape
        self._dtype = np.dtype(spec.dtype)
        self._may_be_empty = spec.may_be_empty
        self._ledger = ledger
        self._completer = completer
        self._wants_tokens = wants_tokens
        self._token_check = token_check(spec, wants_tokens=wants_tokens)
        self._is_shut = False
        self._open = ledger.whole
        self._unseen: list[np.ndarray] = []
        self._unseen_indices: list[int] = []
        self._shape_of_one: tuple[int, ...] | None = None  # None: nothing takes the short path
        if not wants_tokens and None not in spec.shape:
            shape = (1, *(size or 0 for size in spec.shape))
            self._shape_of_one = shape if np.empty(shape, self._dtype).nbytes <= _SMALL_BYTES else None

    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Answer samples; see `Reply.complete`."""
        if (
            samples.ids
            and type(outputs) is np.ndarray
            and outputs.shape == self._shape_of_one
            and outputs.dtype is self._dtype
            and get_ident() == self._completer.issuer
            and self._open.get(first := samples.ids[0]) is samples
        ):
            del self._open[first]
            self._completer.complete_one(first, outputs)
            self._unseen.append(outputs)
            self._unseen_indices.append(samples.indices[0])
            if len(self._unseen) == _SEEN_TOGETHER:
                self._look_at_unseen()
        else:
            self._complete_any(samples, outputs, token_counts)

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Report first tokens; see `Reply.first_token`."""
        if not len(samples) or self._came_late(samples):
            return
        if len(tokens) != len(samples):
            self._ledger.fault(samples.indices, f"first token of {len(tokens)} samples given for {len(samples)}")
        elif len(self._ledger.still_open(samples)) != len(samples):
            self._ledger.fault(samples.indices, "first token after the reply, or never asked for")
        else:
            if self._token_check:
                self._token_check.first(samples, tokens)
            self._completer.first_token(samples, np.ascontiguousarray(tokens))

    def fail(self, samples: Samples, reason: str) -> None:
        """Give samples up; see `Reply.fail`."""
        if not len(samples) or self._came_late(samples):
            return
        self._ledger.fault(samples.indices, f"failed: {reason}")
        self._give_up(samples)

    def shut(self) -> None:
        """From now on the test is over: a reply is a fault, and LoadGen does not hear of it. Called by the issuer."""
        self._is_shut = True
        self._shape_of_one = None
        self._look_at_unseen()

    def _look_at_unseen(self) -> None:
        """Look for NaNs in the replies that took the short path."""
        if self._unseen and _has_nan(np.concatenate(self._unseen)):
            bad = [index for index, output in zip(self._unseen_indices, self._unseen, strict=True) if _has_nan(output)]
            self._ledger.fault(bad, "NaN in the reply")
        self._unseen.clear()
        self._unseen_indices.clear()

    def _complete_any(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None
    ) -> None:
        if not len(samples) or self._came_late(samples):
            return
        if wrong := self._what_is_wrong(len(samples), outputs, token_counts):
            self._ledger.fault(*self._at_fault(samples, outputs, wrong))
            self._give_up(samples)
            return
        if self._token_check:
            for index, what in self._token_check.faults(samples, outputs, token_counts):
                self._ledger.fault([index], what)
        closed = self._ledger.close(samples)
        if closed is samples:
            counts = None if token_counts is None else list(token_counts)
            self._completer.complete(samples, _contiguous(outputs), counts)
        elif len(closed):  # something was answered twice; the run is INVALID, LoadGen only needs to end
            self._completer.give_up(closed)

    def _came_late(self, samples: Samples) -> bool:
        if self._is_shut:
            self._ledger.fault(samples.indices, "answered after the test had ended")
        return self._is_shut

    def _give_up(self, samples: Samples) -> None:
        if len(closed := self._ledger.close(samples)):
            self._completer.give_up(closed)

    def _what_is_wrong(
        self, count: int, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None
    ) -> str:
        """Return what is wrong with a reply as a whole; empty when nothing is."""
        if len(outputs) != count:
            return f"{len(outputs)} outputs for {count} samples"
        if self._wants_tokens and token_counts is None:
            return "no token count, and this workload is judged by tokens"
        if token_counts is not None and (len(token_counts) != count or min(token_counts) < 1):
            return "token counts missing or below 1"
        if isinstance(outputs, np.ndarray):
            return self._wrong_form(outputs.shape[1:], outputs.dtype) or _wrong_numbers(outputs)
        return next(filter(None, map(self._wrong_output, outputs)), "")

    def _wrong_output(self, output: np.ndarray) -> str:
        if not isinstance(output, np.ndarray):
            return f"reply is a {type(output).__name__}, not a NumPy array"
        return self._wrong_form(output.shape, output.dtype) or _wrong_numbers(output)

    def _wrong_form(self, shape: tuple[int, ...], dtype: np.dtype) -> str:
        if dtype != self._dtype:
            return f"wrong dtype {dtype}, want {self._dtype}"
        if shape == self._shape:
            return ""
        if 0 in shape and not self._may_be_empty:
            return f"empty reply, shape {shape}"
        fits = len(shape) == len(self._shape) and all(
            want is None or want == size for want, size in zip(self._shape, shape, strict=True)
        )
        return "" if fits else f"wrong shape {shape}, want {_spelled(self._shape)}"

    def _at_fault(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], wrong: str
    ) -> tuple[list[int], str]:
        """Return the dataset indices of the samples at fault, and why: all of them, when the reply as a whole is."""
        if len(outputs) == len(samples):
            singly = {index: self._wrong_output(output) for index, output in zip(samples.indices, outputs, strict=True)}
            if found := [index for index, what in singly.items() if what]:
                return found, singly[found[0]]
        return list(samples.indices), wrong


def _wrong_numbers(output: np.ndarray) -> str:
    return "NaN in the reply" if _has_nan(output) else ""


def _has_nan(output: np.ndarray) -> bool:
    return output.dtype.kind == "f" and bool(np.isnan(output).any())


def _contiguous(outputs: np.ndarray | Sequence[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    if isinstance(outputs, np.ndarray):
        return np.ascontiguousarray(outputs)
    return [np.ascontiguousarray(output) for output in outputs]


def _spelled(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
