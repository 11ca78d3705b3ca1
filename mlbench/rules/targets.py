"""Accuracy targets as the submission checker computes them: the reference score times a share."""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.contracts.metric import Target


def share_targets(
    score: str, reference: float, shares: Mapping[str, float], upper_share: float | None = None
) -> tuple[Target, ...]:
    """Return a target for each variant; the first is the one that is required.

    Args:
        score: its name.
        reference: what the reference implementation reaches.
        shares: of the reference, by the variant that demands so much: ``{"99": 0.99, "99.9": 0.999}``.
        upper_share: more than this is wrong too.
    """
    upper = None if upper_share is None else reference * upper_share
    return tuple(
        Target(
            score=score, reference=reference, lower=reference * share, upper=upper, name=name, required=position == 0
        )
        for position, (name, share) in enumerate(shares.items())
    )
