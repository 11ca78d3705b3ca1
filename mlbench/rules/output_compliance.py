"""The compliance test TEST01: replies of a performance test equal those of the accuracy test.

The official script compares the first byte of each reply. It replaces its reference by what it has just compared, so
that a sample's second reply is compared with its first, and it lets through samples that the accuracy test never
answered. Here whole replies are compared, each with the accuracy test's.

Source: MLPerf Inference v4.1, compliance/nvidia/TEST01/verify_accuracy.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlbench.contracts.metric import LoggedReply

LEAST_LOGGED = 0.5
"""Share of the replies to be expected that a log must hold: LoadGen picks them at random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCompliance:
    """What TEST01 finds in two logs of replies."""

    reference_entries: int
    """Replies of the accuracy test."""
    reference_duplicates: int
    """Replies of the accuracy test to a sample that had one before."""
    reference_contradictions: int
    """Duplicates with another content than the first."""
    entries: int
    """Replies that the performance test logged."""
    official_matched: int
    """Replies to samples that the script has a reference for."""
    official_differing: int
    official_absent: int
    differing: tuple[int, ...]
    """Sample indices of replies that are not the accuracy test's, byte for byte; one entry per reply."""
    absent: tuple[int, ...]
    """Sample indices of replies to samples that the accuracy test never answered."""
    least: int
    """How many replies the log must hold."""

    @property
    def official_passed(self) -> bool:
        """Return what the official script says, with its default of one byte."""
        return not self.official_differing and self.official_matched > 0

    @property
    def is_complete(self) -> bool:
        """Return whether there are enough replies, all to samples that the accuracy test answered."""
        return self.entries >= max(1, self.least) and not self.absent

    @property
    def passed(self) -> bool:
        """Return whether all replies are the accuracy test's."""
        return self.is_complete and not self.differing

    @property
    def counts(self) -> str:
        """Return the lines of the official script, without its verdict."""
        return (
            f"num_acc_log_entries = {self.reference_entries}\n"
            f"num_acc_log_duplicate_keys = {self.reference_duplicates}\n"
            f"num_acc_log_data_mismatch = {self.reference_contradictions}\n"
            f"num_perf_log_entries = {self.entries}\n"
            f"num_perf_log_qsl_idx_match = {self.official_matched}\n"
            f"num_perf_log_data_mismatch = {self.official_differing}\n"
            f"num_missing_qsl_idxs = {self.official_absent}\n"
        )


def compare_outputs(
    sampled: Sequence[LoggedReply], reference: Iterable[LoggedReply], *, least: int = 1
) -> OutputCompliance:
    """Compare the replies of a performance test with those of the accuracy test.

    Args:
        sampled: as the performance test logged them, in its order.
        reference: of the accuracy test; read once. Of a sample that was asked twice the first reply counts.
        least: how many replies must have been logged.
    """
    wanted, seen = {reply.index for reply in sampled}, set[int]()
    first: dict[int, bytes] = {}
    entries = duplicates = contradictions = 0
    for reply in reference:
        entries += 1
        if reply.index not in seen:
            seen.add(reply.index)
            if reply.index in wanted:
                first[reply.index] = reply.data
        else:
            duplicates += 1
            contradictions += reply.index in first and first[reply.index] != reply.data
    matched, mismatched = _compare_as_official(sampled, first)
    return OutputCompliance(
        reference_entries=entries,
        reference_duplicates=duplicates,
        reference_contradictions=contradictions,
        entries=len(sampled),
        official_matched=matched,
        official_differing=mismatched,
        official_absent=len(sampled) - matched,
        differing=tuple(each.index for each in sampled if each.index in first and first[each.index] != each.data),
        absent=tuple(each.index for each in sampled if each.index not in first),
        least=least,
    )


def _compare_as_official(sampled: Iterable[LoggedReply], first: dict[int, bytes]) -> tuple[int, int]:
    """Return how many replies have a reference, and how many of these begin with another byte."""
    known, matched, mismatched = dict(first), 0, 0
    for reply in sampled:
        if reply.index in known:
            matched += 1
            mismatched += reply.data[:1] != known[reply.index][:1]
        known[reply.index] = reply.data
    return matched, mismatched
