"""Verdicts on compliance tests, as lines and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlbench.reports.units import percent, plural, quantity, rough_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlbench.submission.auditing.plan import AuditPlan
    from mlbench.submission.auditing.verdicts import AuditVerdict

_WORDS = {True: "passes", False: "FAILS"}
_PLURAL = {True: "pass", False: "FAIL"}


def plan_lines(plan: AuditPlan) -> Iterator[str]:
    """Yield the planned tests and their duration."""
    total_s = sum(each.seconds for each in plan.tests)
    count = plural(len(plan.tests), "test")
    yield f"{plan.record.run_id}: {count}, {rough_time(total_s)} in all"
    for each in plan.tests:
        required = "" if each.is_required else "; the closed division does not require it"
        yield f"  {each.test}: {rough_time(each.seconds)}{required}"


def verdict_lines(verdict: AuditVerdict, unit: str, *, is_earlier: bool = False) -> Iterator[str]:
    """Yield a test's verdict, the official one, and their reasons."""
    earlier = "earlier, " if is_earlier else ""
    official = "passes" if verdict.official_passed else "fails"
    if verdict.checker_passed is not None:
        official += f", official checker: {'passes' if verdict.checker_passed else 'fails'}"
    yield (
        f"{verdict.test} {_WORDS[verdict.passed]} ({earlier}run {verdict.repeat}; official script: {official})"
        f"  [{verdict.run_id}]"
    )
    if found := verdict.performance:
        word = "better" if found.change > 0 else "worse"
        yield (
            f"  performance {_WORDS[found.passed]}: {quantity(found.measured, unit)}, "
            f"{percent(abs(found.change))} {word} than the run's {quantity(found.reference, unit)}; "
            f"limit {percent(found.margin)}, official {percent(found.official_margin)}"
        )
    if replies := verdict.replies:
        yield f"  replies {_PLURAL[replies.passed]}: {'; '.join(replies.findings)}"
    for problem in verdict.problems:
        yield f"  {problem}"
