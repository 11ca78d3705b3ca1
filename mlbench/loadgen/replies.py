"""The replies of one test: each is checked, and reported to LoadGen."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from threading import get_ident

import numpy as np

from mlbench.contracts.engine import Reply, Samples
from mlbench.contracts.refusing import refusing
from mlbench.contracts.reply_spec import ReplySpec
from mlbench.errors import describe_error, one_line
from mlbench.loadgen.completer import Completer, Unchecked
from mlbench.loadgen.ledger import Closed, Ledger
from mlbench.loadgen.reply_form import ReplyForm, UnsoundReplyError, has_nan, name_samples, sample_ids
from mlbench.loadgen.token_check import token_check

logger = logging.getLogger(__name__)

_COLUMNS = (tuple, list)
_SMALL_BYTES = 4096
_SEEN_TOGETHER = 256


class CheckedReply(Reply):
    """Checks form, values and count of every reply. Faults go into the ledger, and are never raised.

    Everything in a reply is read and converted before the ledger closes a sample: a closed sample is always reported to
    LoadGen. An exception while reading is a fault too, and closes the samples that are still open.

    A single small sample, answered on LoadGen's own thread, takes a fast path: there LoadGen needs a few microseconds,
    and each of ours shows. Its values are checked later, many replies together.

    Small replies of an Offline query, which are gathered anyway, are checked and closed together too. If any of them is
    invalid, each is checked alone.
    """

    def __init__(
        self,
        spec: ReplySpec,
        ledger: Ledger,
        completer: Completer,
        *,
        wants_tokens: bool,
        needs_first_tokens: bool = False,
    ) -> None:
        """Store what replies are checked against.

        Args:
            spec: the form of a reply.
            ledger: tracks the samples.
            completer: reports to LoadGen.
            wants_tokens: whether a reply needs its number of tokens.
            needs_first_tokens: whether LoadGen ends the process over a test in which no first token came before an
                answer: in token runs of all scenarios but Offline.
        """
        self._begun: set[int] | None = set() if needs_first_tokens else None  # open samples with a first token
        self._form = ReplyForm(spec, wants_tokens=wants_tokens)
        self._dtype = self._form.dtype
        self._ledger = ledger
        self._completer = completer
        self._token_check = token_check(spec, wants_tokens=wants_tokens)
        self._is_shut = False
        self._open = ledger.whole
        self._unseen: list[np.ndarray] = []
        self._unseen_indices: list[int] = []
        self._shape_of_one: tuple[int, ...] | None = None  # None: nothing takes the fast path
        if not wants_tokens and None not in spec.shape:
            shape = (1, *(size or 0 for size in spec.shape))
            self._shape_of_one = shape if np.empty(shape, self._dtype).nbytes <= _SMALL_BYTES else None
        self._gathered: set[int] = set()  # samples whose replies wait to be checked together
        gather = completer.gather(self._complete_together, self._is_all_here)
        self._gather = gather if self._shape_of_one else None

    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Answer samples; see `Reply.complete`."""
        try:
            if (
                type(outputs) is np.ndarray
                and outputs.shape == self._shape_of_one
                and outputs.dtype is self._dtype
                and get_ident() == self._completer.issuer
                and type(ids := samples.ids) is tuple
                and len(ids) == 1
                and (query := self._open.get(ids[0])) is not None
                and query[0] is ids
                and self._open.pop(ids[0], None) is not None
            ):
                self._completer.complete_one(ids[0], outputs)
                self._unseen.append(outputs)
                self._unseen_indices.append(query[1][0])
                if len(self._unseen) == _SEEN_TOGETHER:
                    self._look_at_unseen()
            elif (
                (gather := self._gather)
                and type(samples) is Samples
                and type(outputs) is np.ndarray
                and outputs.dtype is self._dtype
                and outputs.shape[1:] == self._form.shape
                and outputs.nbytes <= _SMALL_BYTES
                and type(ids := samples.ids) in _COLUMNS
                and set(map(type, ids)) == {int}
                and len(ids) == len(outputs)
                and token_counts is None
                and not self._is_shut
                and get_ident() != self._completer.issuer
            ):
                self._gathered.update(ids)
                gather(Unchecked(Samples(tuple(ids), samples.indices, samples.dataset), outputs))
            else:
                self._complete_any(samples, outputs, token_counts)
        except BaseException as error:  # reading what an engine passes may run its code
            self.refuse("complete", samples, error)

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Report first tokens; see `Reply.first_token`. A fault here leaves the samples open for their answer."""
        try:
            self._report_first(sample_ids(samples), samples, tokens)
        except BaseException as error:  # as in `complete`
            self._note(_readable_ids(samples), samples, _reason("first_token", samples, error))

    @refusing
    def fail(self, samples: Samples, reason: str) -> None:
        """Give samples up; see `Reply.fail`."""
        ids = sample_ids(samples)
        if ids and not self._came_late(samples, ids):
            self._end(samples, ids, f"failed: {one_line(reason)}")

    def invalidate(self, reason: str) -> None:
        """Note a fault that belongs to no sample; see `Reply.invalidate`."""
        self._ledger.fault_of_test(reason)

    def fail_open(self, ids: Sequence[int], reason: str) -> None:
        """Fail those of these samples that have no answer yet."""
        self._give_up(self._ledger.close(ids), f"failed: {reason}")

    def fail_all(self, reason: str) -> None:
        """Fail all samples that have no answer yet."""
        self._give_up(self._ledger.close_all(), f"failed: {reason}")

    def hold(self, ids: Sequence[int]) -> Closed:
        """Close samples that no engine is asked for, and return them for `release`; LoadGen waits for them."""
        return self._ledger.close(ids)

    def release(self, held: Closed) -> None:
        """Tell LoadGen that samples that were held are over without data."""
        self._tell_given_up(held)

    def shut(self) -> None:
        """End the test: a later reply is an error and is not reported to LoadGen. Called by the issuer."""
        self._is_shut = True
        self._shape_of_one = None
        self._look_at_unseen()

    def _look_at_unseen(self) -> None:
        """Look for NaNs in the replies that took the fast path."""
        unseen, indices = self._unseen, self._unseen_indices
        self._unseen, self._unseen_indices = [], []
        try:
            if unseen and has_nan(np.concatenate(unseen)):
                bad = [index for index, output in zip(indices, unseen, strict=True) if has_nan(output)]
                self._ledger.fault(bad, "NaN in the reply")
        except Exception as error:  # an array that its engine has given another shape since
            self._ledger.fault(indices, f"the reply was changed after it was given: {describe_error(error)}")

    def _is_all_here(self) -> bool:
        return not self._ledger.has_more_open_than(len(self._gathered))

    def _complete_together(self, replies: Sequence[Unchecked]) -> None:
        """Answer samples with replies of the right form; invalid ones one by one."""
        ids = tuple(chain.from_iterable(reply.samples.ids for reply in replies))
        try:
            outputs = np.concatenate([reply.outputs for reply in replies])
            is_formed = outputs.shape == (len(ids), *self._form.shape)
            if is_formed and not has_nan(outputs) and (closed := self._ledger.close_if_open(ids)):
                self._completer.complete(closed, outputs)
                return
        except Exception:  # an array that its engine has given another shape since
            logger.debug("replies are checked one by one", exc_info=True)
        finally:
            self._gathered.difference_update(ids)
        for reply in replies:
            try:
                self._complete_any(reply.samples, reply.outputs, None)
            except BaseException as error:  # as in `complete`
                self.refuse("complete", reply.samples, error)

    def _complete_any(self, samples: Samples, outputs: object, token_counts: object) -> None:
        ids = sample_ids(samples)
        if not ids or self._came_late(samples, ids):
            return
        try:
            arrays, counts = self._form.answers(len(ids), outputs, token_counts)
        except UnsoundReplyError as error:
            self._end(samples, ids, str(error), error.positions)
            return
        untrue = list(self._token_check.faults(ids, arrays, counts)) if self._token_check else ()
        closed = self._ledger.close(ids)
        if len(closed.ids) == len(ids):
            for position, what in untrue:
                self._ledger.fault([closed.indices[position]], what)
            if late := self._report_missing_first(closed):
                self._ledger.fault(late.indices, "no first token was reported before the answer")
            self._completer.complete(closed, arrays, counts)
        else:  # something was answered twice; the run is INVALID, LoadGen only needs to end
            self._fault_refused(samples, ids, closed)
            self._tell_given_up(closed)

    def _report_first(self, ids: tuple[int, ...], samples: Samples, tokens: object) -> None:
        if not ids or self._came_late(samples, ids):
            return
        array = self._form.first_tokens(len(ids), tokens)
        indices = self._ledger.indices(ids) if self._gathered.isdisjoint(ids) else None
        if indices is None:
            raise UnsoundReplyError("first token after the reply, or never asked for")
        if self._token_check:
            self._token_check.first(ids, array)
        if self._begun is not None:
            self._begun.update(ids)
        self._completer.first_token(Closed(ids, indices), array)

    def _report_missing_first(self, closed: Closed) -> Closed:
        """Tell LoadGen of a first token of each of these samples that has none, and return these samples."""
        if self._begun is None:
            return Closed((), ())
        pairs = [pair for pair in zip(closed.ids, closed.indices, strict=True) if pair[0] not in self._begun]
        self._begun.difference_update(closed.ids)
        missing = Closed(tuple(id_ for id_, _ in pairs), tuple(index for _, index in pairs))
        if missing:
            self._completer.first_token(missing, np.zeros((len(missing), 1), np.int64))
        return missing

    def _tell_given_up(self, closed: Closed) -> None:
        if closed:
            self._report_missing_first(closed)
            self._completer.give_up(closed)

    def _came_late(self, samples: Samples, ids: Sequence[int]) -> bool:
        if self._is_shut:
            self._ledger.fault(name_samples(samples, ids), "answered after the test had ended")
        return self._is_shut

    def _end(self, samples: Samples, ids: Sequence[int], reason: str, positions: Sequence[int] | None = None) -> None:
        """Fail the samples at these positions for a reason; None: all of them."""
        closed = self._ledger.close(ids)
        if len(closed) != len(ids):
            self._fault_refused(samples, ids, closed)
        at_fault = set(ids) if positions is None else {ids[position] for position in positions}
        bad = [index for id_, index in zip(closed.ids, closed.indices, strict=True) if id_ in at_fault]
        self._ledger.fault(bad, reason)
        self._tell_given_up(closed)

    def _give_up(self, closed: Closed, reason: str) -> None:
        if closed:
            self._ledger.fault(closed.indices, reason)
            self._tell_given_up(closed)

    def _fault_refused(self, samples: Samples, ids: Sequence[int], closed: Closed) -> None:
        """Note the samples that were answered and not open."""
        left = set(closed.ids)
        names = name_samples(samples, ids)
        refused = []
        for id_, name in zip(ids, names, strict=True):
            if id_ in left:
                left.remove(id_)
            else:
                refused.append(name)
        self._ledger.fault(refused, "answered twice, or never asked")

    def refuse(self, method: str, samples: Samples, error: BaseException) -> None:
        """Close the samples of a failed call, as far as they are known and still open."""
        ids, reason = _readable_ids(samples), _reason(method, samples, error)
        closed = self._ledger.close(ids)
        if closed:
            self._give_up(closed, reason)
        else:
            self._note(ids, samples, reason)

    def _note(self, ids: Sequence[int], samples: Samples, reason: str) -> None:
        if ids:
            self._ledger.fault(name_samples(samples, ids), reason)
        else:
            self._ledger.fault_of_test(reason)


def _reason(method: str, samples: Samples, error: BaseException) -> str:
    if not isinstance(samples, Samples):
        return f"the reply is to a {type(samples).__name__}, not to Samples"
    return str(error) if isinstance(error, UnsoundReplyError) else f"{method}() raised {describe_error(error)}"


def _readable_ids(samples: Samples) -> Sequence[int]:
    """Return the ids of samples from an engine; none if they cannot be read."""
    try:
        return sample_ids(samples)
    except BaseException:  # as in `CheckedReply.complete`
        return ()
