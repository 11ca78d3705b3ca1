"""Rules about the speed: that it was computed, and prompts and answers are whole and answers their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from mlbench.rules.facts import RuleResult, RunFacts

MOST_REPEATED = 3.0
"""How many times as long new content may take as content that was answered before, in the best of some rounds.

The two are timed in turns, in queries of the same make, so that a busy machine slows both. An honest engine needs as
long for one as for the other; memory of answers is a hundred times faster for any model worth measuring.
"""

MOST_CLAIMED = 10.0
"""How many times as fast as on new content the measured part may have been, in the best of some rounds.

It sees an engine that remembers only while it is measured. The two are not timed in turns, and a short burst does not
fill an engine as a long test does: hence so much more than `MOST_REPEATED`.
"""

LEAST_RIGHT = 0.5
"""The share of answers that must follow the content, for content of each kind. By chance one in ten does."""

LEAST_FIRST_TOKEN_STEPS = 0.25
"""How soon the first token of an answer may come, in steps from one token to the next: its own step is one."""

LEAST_WHOLE = 0.95
"""The share of answers that must end, or be as long as allowed. A server that takes and gives text cuts it into tokens
in ways of its own, so that some answers may look as if they did neither."""

MOST_LENGTH_CHANGE = 0.1
"""How much shorter or longer, in all, answers may be than the accuracy test's to the same samples; that of the official
targets for tokens per sample."""

LEAST_SIGNIFICANCE = 3.0
"""And by so many standard errors, lest a few answers that took another turn decide."""

NAMED = 10

_TEST04 = "MLPerf Inference v4.1, compliance test TEST04: a repeated sample is no faster than others"
_TEST06 = "MLPerf Inference v4.1, compliance test TEST06"
_COMPUTED = "mlbench: speed is computed"


def no_caching(facts: RunFacts) -> RuleResult | None:
    """New content takes no longer than content that was answered before."""
    if facts.spot_check is None or facts.spot_check.repeated is None:
        return None
    measured = round(facts.spot_check.repeated, 2)
    return RuleResult(
        rule="no_caching",
        measured=measured,
        limit=MOST_REPEATED,
        unit="times as long",
        passed=measured < MOST_REPEATED,
        fix=f"Compute each answer: content answered before comes back {measured:g} times as fast as new content.",
        source=_TEST04,
    )


def speed_holds(facts: RunFacts) -> RuleResult | None:
    """What was measured is a speed that new content can have."""
    if facts.spot_check is None or facts.spot_check.claimed is None:
        return None
    measured = round(facts.spot_check.claimed, 2)
    return RuleResult(
        rule="speed_holds",
        measured=measured,
        limit=MOST_CLAIMED,
        unit="times as fast",
        passed=measured < MOST_CLAIMED,
        fix=f"Answer while measured as at other times: new content came {measured:g} times slower than measured.",
        source=_COMPUTED,
    )


def answers_follow_content(facts: RunFacts) -> RuleResult | None:
    """Content under another index, changed a little, or continued, gets the answer that belongs to it."""
    found = facts.spot_check
    if found is None or not found.asked:
        return None
    share = (found.asked - len(found.wrong)) / found.asked
    return RuleResult(
        rule="answers_follow_content",
        measured=share,
        limit=LEAST_RIGHT,
        unit="",
        passed=share >= LEAST_RIGHT,
        fix=f"Answer what a sample holds; wrong answers to samples {found.kind}: {_name_samples(found.wrong)}.",
        source=_COMPUTED,
    )


def first_token_computed(facts: RunFacts) -> RuleResult | None:
    """A first token takes about as long as the tokens after it, at the least."""
    if facts.spot_check is None or facts.spot_check.first_token_steps is None:
        return None
    measured = round(facts.spot_check.first_token_steps, 3)
    return RuleResult(
        rule="first_token_computed",
        measured=measured,
        limit=LEAST_FIRST_TOKEN_STEPS,
        unit="steps",
        passed=measured >= LEAST_FIRST_TOKEN_STEPS,
        fix=f"Report a first token when it was computed: it came within {measured:g} of the time of a token.",
        source=_COMPUTED,
    )


def token_compliance(facts: RunFacts) -> RuleResult | None:
    """Logged answers hold their first token, their number of tokens, and at most one end token."""
    found = facts.token_answers
    if found is None:
        return None
    count, first = len(found.faults), next(iter(found.faults), "")
    return RuleResult(
        rule="token_compliance",
        measured=count,
        limit=0,
        unit="faults",
        passed=count == 0,
        fix=f"First of {count}: {first}.",
        source=_TEST06,
    )


def prompts_whole(facts: RunFacts) -> RuleResult | None:
    """Every prompt was read to its end, as far as the engine can tell: a shorter one takes less work."""
    measured = facts.truncated_prompts
    if measured is None:
        return None
    return RuleResult(
        rule="prompts_whole",
        measured=measured,
        limit=0,
        unit="prompts cut",
        passed=measured == 0,
        fix=f"Read prompts to their end: {measured} were cut. A server needs a context for prompt and answer together.",
        source="mlbench: the measured work is the workload's",
    )


def answers_whole(facts: RunFacts) -> RuleResult | None:
    """Logged answers end with an end token, or are as long as allowed."""
    found = facts.token_answers
    if found is None or not found.checked:
        return None
    share = (found.checked - len(found.cut)) / found.checked
    return RuleResult(
        rule="answers_whole",
        measured=share,
        limit=LEAST_WHOLE,
        unit="",
        passed=share >= LEAST_WHOLE,
        fix=f"Give answers to their end: those to samples {_name_samples(found.cut)} break off.",
        source="MLPerf Inference v4.1 rules: an answer ends with the end token or at the largest number of new tokens",
    )


def answers_as_long(facts: RunFacts) -> RuleResult | None:
    """Answers kept while measuring are as long as the accuracy test's to the same samples."""
    if facts.token_answers is None or not facts.token_answers.lengths:
        return None
    lengths = facts.token_answers.lengths
    ratio = sum(ours for ours, _ in lengths) / sum(theirs for _, theirs in lengths)
    passed = abs(ratio - 1) <= MOST_LENGTH_CHANGE or _standard_errors(lengths) < LEAST_SIGNIFICANCE
    return RuleResult(
        rule="answers_as_long",
        measured=round(ratio, 4),
        limit=f"{1 - MOST_LENGTH_CHANGE:g} .. {1 + MOST_LENGTH_CHANGE:g}",
        unit="",
        passed=passed,
        fix=f"Answer alike in both tests: answers kept while measuring have {ratio:.2f} of the accuracy test's tokens.",
        source="MLPerf Inference v4.1 rules: the accuracy and the performance run use the same code; tokens per sample",
    )


def _standard_errors(lengths: Sequence[tuple[int, int]]) -> float:
    """Return how far from 0 the mean difference of pairs lies, in its standard errors if that were all chance."""
    differences = [ours - theirs for ours, theirs in lengths]
    spread = math.sqrt(fmean(each**2 for each in differences))
    return abs(fmean(differences)) * math.sqrt(len(differences)) / spread if spread else 0.0


def _name_samples(samples: Sequence[int]) -> str:
    distinct = sorted(set(samples))
    return ", ".join(map(str, distinct[:NAMED])) + (", ..." if len(distinct) > NAMED else "")
