"""Rules against speed without computation: caching, invented tokens, truncated prompts and answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from mlbench.rules.facts import RuleResult, RunFacts, TimedAnswers

MOST_REPEATED = 3.0
"""Largest ratio of the time for new content to the time for repeated content, in the best of several rounds.

The two are timed alternately, with equal queries, so that a busy machine slows both. An honest engine needs the same
time for both; a cache of answers is a hundred times faster for any model worth measuring.
"""

MOST_CLAIMED = 10.0
"""Largest ratio of the measured speed to the speed on new content, in the best of several rounds.

It detects an engine that caches only during the test. The two are not timed alternately, and a short burst does not
load an engine as a long test does: hence the larger value.
"""

LEAST_RIGHT = 0.5
"""Least share of answers that must match the content, for each kind of content. By chance one in ten does."""

LEAST_KNOWN = 3
"""Least number of known samples with the model's answer for a share of the answers to new content."""

LEAST_FIRST_TOKEN_STEPS = 0.25
"""Least time to the first token, in decode steps; an honest first token takes one step."""

LEAST_WHOLE = 0.95
"""Least share of answers that must end, or have the maximum length. A server of text may tokenise it differently, so
that some answers seem to do neither."""

MOST_LENGTH_CHANGE = 0.1
"""Largest relative difference in total length from the accuracy test's answers to the same samples; the margin of the
official targets for tokens per sample."""

LEAST_SIGNIFICANCE = 3.0
"""The difference must also exceed this many standard errors, so that a few diverging answers do not decide."""

NAMED = 10

_TEST04 = "compliance test TEST04: a repeated sample is no faster than others"
_TEST06 = "compliance test TEST06"
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
        fix=f"Compute each answer: repeated content is answered {measured:g} times as fast as new content.",
        source=f"MLPerf Inference {facts.rules.round}, {_TEST04}",
    )


def speed_holds(facts: RunFacts) -> RuleResult | None:
    """The measured speed is reached with new content, too."""
    if facts.spot_check is None or facts.spot_check.claimed is None:
        return None
    measured = round(facts.spot_check.claimed, 2)
    return RuleResult(
        rule="speed_holds",
        measured=measured,
        limit=MOST_CLAIMED,
        unit="times as fast",
        passed=measured < MOST_CLAIMED,
        fix=f"Compute each answer during the test, too: new content was {measured:g} times slower than measured.",
        source=_COMPUTED,
    )


def answers_follow_content(facts: RunFacts) -> RuleResult | None:
    """Content under another index, slightly changed, or continued, gets its own answer."""
    found = facts.spot_check
    if found is None or not found.asked:
        return None
    share = (found.asked - len(found.wrong)) / found.asked
    return RuleResult(
        rule="answers_follow_content",
        measured=share,
        limit=LEAST_RIGHT,
        passed=share >= LEAST_RIGHT,
        fix=f"Answer the sample's content; wrong answers to samples {found.kind}: {_name_samples(found.wrong)}.",
        source=_COMPUTED,
    )


def timed_answers(facts: RunFacts) -> RuleResult | None:
    """New content that was timed is answered as the fp32 model does, about as often as known content."""
    found = facts.timed_answers
    if found is None or not is_scored(found):
        return None
    share = found.right / found.known_right
    return RuleResult(
        rule="timed_answers",
        measured=round(share, 4),
        limit=LEAST_RIGHT,
        passed=share >= LEAST_RIGHT,
        fix=f"Compute each answer: of {found.checked} answers to new content that was timed {found.right} are the fp32 "
        f"model's, of those to the samples it was made of {found.known_right}.",
        source=_COMPUTED,
    )


def is_scored(found: TimedAnswers) -> bool:
    """Return whether enough known samples are answered as the model does to tell an engine from a memory."""
    return found.known_right >= LEAST_KNOWN


def first_token_computed(facts: RunFacts) -> RuleResult | None:
    """A first token takes at least about as long as later tokens."""
    if facts.spot_check is None or facts.spot_check.first_token_steps is None:
        return None
    measured = round(facts.spot_check.first_token_steps, 3)
    return RuleResult(
        rule="first_token_computed",
        measured=measured,
        limit=LEAST_FIRST_TOKEN_STEPS,
        unit="steps",
        passed=measured >= LEAST_FIRST_TOKEN_STEPS,
        fix=f"Report a first token only once it is computed: it came after {measured:g} of a decode step.",
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
        source=f"MLPerf Inference {facts.rules.round}, {_TEST06}",
    )


def prompts_whole(facts: RunFacts) -> RuleResult | None:
    """No prompt was truncated, as far as the engine reports: a shorter one takes less work."""
    measured = facts.truncated_prompts
    if measured is None:
        return None
    return RuleResult(
        rule="prompts_whole",
        measured=measured,
        limit=0,
        unit="truncated prompts",
        passed=measured == 0,
        fix=f"Do not truncate prompts: {measured} were. A server needs a context for prompt and answer together.",
        source="mlbench: the measured work is the workload's",
    )


def answers_whole(facts: RunFacts) -> RuleResult | None:
    """Logged answers end with an end token, or have the maximum length."""
    found = facts.token_answers
    if found is None or not found.checked:
        return None
    share = (found.checked - len(found.cut)) / found.checked
    return RuleResult(
        rule="answers_whole",
        measured=share,
        limit=LEAST_WHOLE,
        passed=share >= LEAST_WHOLE,
        fix=f"Do not truncate answers: those to samples {_name_samples(found.cut)} are.",
        source=f"{facts.rulebook}: an answer ends with the end token or at the largest number of new tokens",
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
        passed=passed,
        fix=f"Compute the same in both tests: sampled answers have {ratio:.2f} of the accuracy test's tokens.",
        source=f"{facts.rulebook}: the accuracy and the performance run use the same code; tokens per sample",
    )


def _standard_errors(lengths: Sequence[tuple[int, int]]) -> float:
    """Return the mean difference of pairs, in standard errors under the null hypothesis."""
    differences = [ours - theirs for ours, theirs in lengths]
    spread = math.sqrt(fmean(each**2 for each in differences))
    return abs(fmean(differences)) * math.sqrt(len(differences)) / spread if spread else 0.0


def _name_samples(samples: Sequence[int]) -> str:
    distinct = sorted(set(samples))
    return ", ".join(map(str, distinct[:NAMED])) + (", ..." if len(distinct) > NAMED else "")
