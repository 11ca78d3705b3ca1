"""What a round changed against the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mlbench.rules.official import Round, WorkloadRules
from mlbench.rules.round_files import own_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundChanges:
    """The differences of two rounds, in words."""

    new: tuple[str, ...]
    """Workloads that the earlier round lacks."""
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    """A line for each other difference: ``llama2-70b: Interactive is new``."""


def changes_of(before: Round, after: Round) -> RoundChanges:
    """Return what a round changed against an earlier one."""
    common = [name for name in after.rows if name in before.rows]
    lines = [line for name in common for line in _workload(before.rules(name), after.rules(name))]
    return RoundChanges(
        new=tuple(own_name(name) for name in after.rows if name not in before.rows),
        gone=tuple(own_name(name) for name in before.rows if name not in after.rows),
        changed=(*lines, *_tests(before, after), *_tree(before, after)),
    )


def _workload(before: WorkloadRules, after: WorkloadRules) -> Iterator[str]:
    name = after.workload
    for one, other, is_new in ((before, after, True), (after, before, False)):
        said = "new" if is_new else "gone"
        for category in other.category_scenarios:
            if category not in one.category_scenarios:
                yield f"{name}: {category} systems are {said}"
        yield from _differing(name, "variant", one.variants, other.variants, said)
        common = one.category_scenarios.keys() & other.category_scenarios.keys()
        if one.category_scenarios.keys() == other.category_scenarios.keys() and common:
            yield from _differing(name, "", one.scenarios, other.scenarios, said)
    if _bounds(before) != _bounds(after) and before.variants.keys() == after.variants.keys():
        yield f"{name}: other targets"
    common_limits = [each for each in after.scenarios if each in before.scenarios]
    if any(before.latencies_in(each) != after.latencies_in(each) for each in common_limits):
        yield f"{name}: other limits"
    for each in ("samples", "performance_sample_count", "offline_min_samples"):
        if getattr(before, each) != getattr(after, each):
            yield f"{name}: {each} {getattr(after, each)}"


def _differing(name: str, what: str, one: Iterable[str], other: Iterable[str], said: str) -> Iterator[str]:
    """Yield a line for each name that the second has and the first lacks."""
    known = set(one)
    yield from (f"{name}: {what + ' ' if what else ''}{each} is {said}" for each in other if each not in known)


def _bounds(rules: WorkloadRules) -> set[tuple[object, ...]]:
    return {(each.score, each.name, each.lower, each.upper) for each in rules.targets}


def _tests(before: Round, after: Round) -> Iterator[str]:
    yield from (f"{test} is new" for test in after.tests if test not in before.tests)
    yield from (f"{test} is gone" for test in before.tests if test not in after.tests)


def _tree(before: Round, after: Round) -> Iterator[str]:
    if replace(before.layout, nameplate_power="") != replace(after.layout, nameplate_power=""):
        yield "the tree of a submission has another layout"
    files = {*before.files.measurements} - {*after.files.measurements}
    yield from (f"{file} is no longer required" for file in sorted(files))
