"""The compliance tests that a stored run requires, and the check that it can be audited."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.cluster.demand import NetworkDemand
from mlbench.contracts.rules import Tokens
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.measurement.verification import verify
from mlbench.planning.repeats import NOT_TRUSTED, check_word
from mlbench.records.environment import observe_environment
from mlbench.records.facts import CONDITIONS
from mlbench.records.node_record import NetworkRecord
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import find_run, runs_in
from mlbench.rules.audit_config import OF_TOKENS
from mlbench.rules.official import round_named
from mlbench.rules.own import rules_of
from mlbench.rules.tiers import Tier
from mlbench.settings.layers import OwnWord

AUDITS = ".audits"
"""The folder of a results folder that holds the tests, by the run that they audit. Its name begins with a dot, so that
nothing that reads results finds them."""

_TEST06_S = 60.0
_NOT_REPEATED = ("accuracy", "score")
"""Stages of a run that its tests do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTest:
    """One test, before it runs."""

    test: str
    is_required: bool
    """Whether the closed division demands it of the workload."""
    seconds: float
    """Approximate duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """The tests of one run."""

    record: RunRecord
    folder: Path
    """The run folder."""
    place: Path
    """Where the run folders of its tests are."""
    tests: tuple[PlannedTest, ...]
    network: NetworkDemand | None = None
    """The nodes that answer the tests; None: this machine does."""
    word: OwnWord = NOT_TRUSTED
    """The user's permission for the run's settings."""
    variant: str = ""
    """The accuracy that the entry is for, ``99.9``; empty: the one that the run must reach."""

    @property
    def stored(self) -> list[Path]:
        """Return the run folders of tests made so far, oldest first."""
        return runs_in(self.place)


def plan_audit(  # noqa: PLR0913 - what may be said of an audit
    results: Path,
    name: str,
    tests: Sequence[str],
    plugins: Plugins,
    *,
    variant: str = "",
    round: str = "",
    word: OwnWord = NOT_TRUSTED,
) -> AuditPlan:
    """Return the tests to run for a stored run.

    Args:
        results: the results folder.
        name: the run, as every command takes it.
        tests: by name; none: all required for the workload.
        plugins: must hold the run's.
        variant: by whose margin scores are compared; empty: that of the accuracy which the run must reach.
        round: the entry's, which must be the run's; empty: the run's.
        word: what the user says, since the record may be a stranger's.

    Raises:
        UsageError: no such run, or one that cannot be audited, misses the variant, or sets what only the user may set.
        MlbenchError: a plugin of the run is missing here.
    """
    folder = find_run(results, name).resolve()
    record = read(folder)
    _check_kind(record)
    _check_variant(record, variant)
    _check_round(record, round)
    rules = rules_of(plugins.workload(record.workload), round_named(record.round))
    if gone := [each for each in tests if each not in rules.round.tests]:
        raise UsageError(f"{record.round} has no {gone[0]}.", hint=f"It has {', '.join(rules.round.tests)}.")
    if OF_TOKENS in tests and rules.tokens is not Tokens.MEASURED:
        raise UsageError(f"{OF_TOKENS} needs tokens, but {record.workload} has none in its answers.")
    if not tests and not rules.compliance:
        raise UsageError(
            f"{record.workload} requires no compliance test at {record.round}.",
            hint="Name one with --test to run it all the same.",
        )
    _check_machine(record)
    check_word(record, {key: each.value for key, each in record.settings.items()}, plugins, word)
    _check_logs(record, folder, plugins)
    return AuditPlan(
        record=record,
        folder=folder,
        place=folder.parent / AUDITS / record.run_id,
        tests=tuple(
            PlannedTest(test=test, is_required=test in rules.compliance, seconds=_seconds(record, test))
            for test in dict.fromkeys(tests or rules.compliance)
        ),
        variant=variant,
        word=word,
    )


def _check_kind(record: RunRecord) -> None:
    run = f"run {record.run_id}"
    if record.audit:
        raise UsageError(f"{run} is itself {record.audit.test} of {record.audit.of}.", hint="Name the run it audits.")
    if record.imported:
        raise UsageError(f"{run} was imported: its engine is not here.", hint="See `mlbench submit check`.")
    if Tier(record.tier) is not Tier.VALID:
        raise UsageError(f"{run} is of tier {record.tier}; only one of tier valid is audited.", hint="--tier valid.")
    if not record.verdict:
        raise UsageError(f"{run} has no result to audit: it failed.", hint="See `mlbench show`.")
    if not record.verdict.is_valid:
        rules = (rule for rule in record.verdict.rules if rule.required and rule.kind == "performance")
        broken = ", ".join(rule.rule for rule in rules if not rule.passed)
        raise UsageError(f"{run} is INVALID by {broken}.", hint="See `mlbench show`.")
    if not record.accuracy:
        raise UsageError(f"{run} has no accuracy test to compare with.", hint="Make one with trained weights.")


def _check_variant(record: RunRecord, variant: str) -> None:
    assert record.accuracy
    targets = record.accuracy.targets
    known = list(dict.fromkeys(each.name for each in targets))
    if variant and variant not in known:
        raise UsageError(f"{record.workload} has no variant {variant}.", hint=f"It has: {', '.join(known)}.")
    if missed := [each.score for each in targets if each.name == variant and not each.is_met]:
        raise UsageError(f"run {record.run_id} misses {variant} in {', '.join(missed)}.", hint="See `mlbench show`.")


def _check_round(record: RunRecord, name: str) -> None:
    if name and round_named(name).name != record.round:
        raise UsageError(
            f"run {record.run_id} is of round {record.round}, and a test for {name} has other seeds.",
            hint=f"Make a run with --round {name}.",
        )


def _check_machine(record: RunRecord) -> None:
    here, name = record.model_copy(update={"environment": observe_environment()}), "hardware"
    if CONDITIONS[name](here) != CONDITIONS[name](record):
        raise UsageError(
            f"run {record.run_id} was made on {CONDITIONS[name](record)}, and this is {CONDITIONS[name](here)}.",
            hint="Audit it where it was made.",
        )


def _check_logs(record: RunRecord, folder: Path, plugins: Plugins) -> None:
    if found := verify(record, folder, plugins).differences:
        raise UsageError(f"run {record.run_id} differs from its logs: {found[0]}.", hint="`mlbench verify` lists all.")


def _seconds(record: RunRecord, test: str) -> float:
    if test == OF_TOKENS:
        return _TEST06_S
    spent = sum(each for stage, each in record.stages_ns.items() if stage not in _NOT_REPEATED)
    return (spent or record.duration_ns or 0) / 1e9


def with_nodes(plan: AuditPlan, network: NetworkDemand | None) -> AuditPlan:
    """Return a plan whose tests nodes answer.

    Args:
        plan: of a run.
        network: nodes that answer now; None: this machine does.

    Raises:
        UsageError: the run was not answered by these.
    """
    record = plan.record
    if not record.network:
        if network:
            raise UsageError(
                f"run {record.run_id} was made without a network, and nodes are named.", hint="Leave --network out."
            )
        return plan
    if not network:
        names = ", ".join(each.node.name for each in record.network.nodes)
        raise UsageError(f"run {record.run_id} was answered by nodes {names}.", hint="Name them with --network.")
    _check_same(record, record.network, network)
    return dataclasses.replace(plan, network=network)


def _check_same(record: RunRecord, then: NetworkRecord, now: NetworkDemand) -> None:
    machines_then = {each.node.name: each.node.environment.machine for each in then.nodes}
    machines = {each.name: each.environment.machine for each in now.nodes}
    if machines_then.keys() != machines.keys():
        one, other = (", ".join(sorted(each)) for each in (machines_then, machines))
        raise UsageError(
            f"run {record.run_id} was answered by nodes {one}, and {other} are named.",
            hint="Start them with the same --name.",
        )
    for name, machine in machines.items():
        if machine != machines_then[name]:
            raise UsageError(
                f"node {name} is on another machine than in run {record.run_id}.", hint="Start it where it was."
            )
    if then.connections != now.spec.connections:
        raise UsageError(
            f"run {record.run_id} had {then.connections} connections to a node, but {now.spec.connections} are "
            "requested.",
            hint=f"Use --connections {then.connections}.",
        )
    if then.is_encrypted is not bool(now.spec.certificate):
        had, asked = ("TLS", "none") if then.is_encrypted else ("no TLS", "it")
        raise UsageError(
            f"run {record.run_id} had {had}, but {asked} is requested.",
            hint="Use --certificate as the run did.",
        )
