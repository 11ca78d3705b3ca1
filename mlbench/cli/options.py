"""Options that several commands share."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mlbench.cli.completions import (
    offer_backends,
    offer_precisions,
    offer_rounds,
    offer_scenarios,
    offer_settings,
    offer_workloads,
)
from mlbench.contracts.power import AUTO
from mlbench.contracts.precision import Precision
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.scenario import LONGEST_TAG, MOST_LANES, is_tag
from mlbench.contracts.workload import Profile, Weights
from mlbench.errors import MlbenchError, UsageError, is_unicode
from mlbench.system.folders import check_results_folder, network_token_file, results_folder

if TYPE_CHECKING:
    from mlbench.planning.schedulers.suite_job import Scheduler


def _parse_settings(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.")
        overrides[key.strip()] = value.strip()
    return overrides


def _tag(context: click.Context, parameter: click.Parameter, name: str) -> str:
    if not is_tag(name):
        raise click.BadParameter(f"{name[:LONGEST_TAG]!r} is longer than {LONGEST_TAG} characters, or not plain text.")
    return name


class Word(click.types.StringParamType):
    """Text that can be searched for in stored data; arguments that are not UTF-8 are refused."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the text; raises as click's own types do."""
        found = super().convert(value, parameter, context)
        if not is_unicode(found):
            self.fail(f"{found!r} is not UTF-8.", parameter, context)
        return found


class ResultsFolder(click.Path):
    """A folder that exists or can be created."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the path; raises as click's own types do."""
        found = super().convert(value, parameter, context)
        try:
            check_results_folder(Path(os.fsdecode(found)))
        except UsageError as error:
            self.fail(error.message, parameter, context)
        return found


class PrecisionName(click.types.StringParamType):
    """Name of a precision; each backend has its own list."""

    name = "name"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the precision; raises as click's own types do."""
        try:
            return Precision(value)
        except ValueError as error:
            self.fail(f"{error}.", parameter, context)

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the precisions of the installed backends, and the known ones."""
        return offer_precisions(context, parameter, incomplete)


class DeviceCount(click.types.StringParamType):
    """A number of accelerators, alone or after the scheduler's name for them: ``8``, ``gpu:h100=8``."""

    name = "[kind=]n"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the `Devices`; raises as click's own types do."""
        from mlbench.planning.schedulers.suite_job import Devices

        if not (found := re.fullmatch(r"(?:([\w./:-]+)=)?(\d{1,4})", value, re.ASCII)):
            self.fail(f"{value!r} is not N or KIND=N.", parameter, context)
        return Devices(count=int(found[2]), kind=found[1] or "")


class Finite(click.FloatRange):
    """A number in a range; ``nan`` is refused."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the number; raises as click's own types do."""
        found = super().convert(value, parameter, context)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", parameter, context)
        return found


backend_option = click.option(
    "--backend",
    metavar="BACKEND",
    shell_complete=offer_backends,
    help="Backend, from `mlbench list`.  [default: the best available]",
)
profile_option = click.option(
    "--profile",
    type=click.Choice([str(profile) for profile in Profile]),
    default=str(Profile.MINI),
    show_default=True,
    help="mini: small trained models and data, included. full: the official ones.",
)
tier_option = click.option(
    "--tier",
    type=click.Choice(["smoke", "dev", "valid"]),
    default="smoke",
    show_default=True,
    help="smoke: seconds. dev: a minute. valid: the official durations and counts.",
)
weights_option = click.option(
    "--weights",
    type=click.Choice([str(weights) for weights in Weights]),
    default=str(Weights.TRAINED),
    show_default=True,
    help="trained, or random (measures speed only).",
)
round_option = click.option(
    "--round",
    default=DEFAULT_ROUND,
    show_default=True,
    metavar="ROUND",
    shell_complete=offer_rounds,
    help="Round of MLPerf Inference whose rules hold, from `mlbench rounds`.",
)
accuracy_option = click.option(
    "--accuracy/--no-accuracy", "wants_accuracy", default=True, help="Also measure accuracy, not only speed."
)


def entry_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a submission's entry, as an `EntryDemand` argument ``entry``."""

    @click.option(
        "--variant",
        default="",
        metavar="VARIANT",
        help="Accuracy target in percent of the reference: 99, 99.9.  [default: the lowest]",
    )
    @click.option(
        "--category",
        type=click.Choice(["datacenter", "edge"]),
        help="Run the scenarios required in this category.  [default: both categories]",
    )
    @click.option(
        "--division",
        type=click.Choice(["closed", "open", "network"]),
        default="closed",
        show_default=True,
        help="closed, or open (accuracy is reported, not required).",
    )
    @functools.wraps(function)
    def with_entry(variant: str, category: str | None, division: str, **others: Any) -> Any:
        from mlbench.rules.entry_demand import Division, EntryDemand
        from mlbench.rules.round_parts import Category

        entry = EntryDemand(
            variant=variant, category=Category(category) if category else None, division=Division(division)
        )
        return function(entry=entry, **others)

    return with_entry


token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=network_token_file,
    metavar="FILE",
    help="File with the secret shared by nodes and clients.  [default: beside the settings file]",
)


def network_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of nodes, as a `NetworkSpec` argument ``network``, None without nodes."""

    @click.option(
        "--network",
        "nodes",
        multiple=True,
        metavar="HOST[:PORT]",
        help="Node that answers the samples (`mlbench serve`); repeatable.",
    )
    @click.option(
        "--connections",
        type=click.IntRange(1, 64),
        default=2,
        show_default=True,
        help="With --network: connections to each node for samples.",
    )
    @click.option(
        "--certificate",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="With --network: use TLS, and trust certificates signed by this one.",
    )
    @token_option
    @functools.wraps(function)
    def with_network(
        nodes: tuple[str, ...], connections: int, certificate: Path | None, token_file: Path, **others: Any
    ) -> Any:
        from mlbench.records.job_spec import NetworkSpec

        network = NetworkSpec(
            nodes=nodes,
            token_file=str(token_file.expanduser().resolve()),
            certificate=str(certificate.expanduser().resolve()) if certificate else "",
            connections=connections,
        )
        return function(network=network if nodes else None, **others)

    return with_network


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a scheduler's job, as a `JobDemand` argument ``job``, None without a scheduler."""

    @click.option(
        "--print",
        "scheduler",
        type=click.Choice(["slurm", "kubernetes"]),
        help="With --suite: print a job that makes its runs, and run nothing.",
    )
    @click.option("--cpus", type=click.IntRange(1), help="With --print: hardware threads.  [default: as here]")
    @click.option(
        "--memory", type=click.IntRange(1), metavar="GIB", help="With --print: memory of the job.  [default: as here]"
    )
    @click.option(
        "--devices",
        type=DeviceCount(),
        help="With --print: number of accelerators, with the scheduler's name for them.  [default: as here]",
    )
    @click.option("--image", metavar="NAME", help="With --print kubernetes: the container's image.")
    @click.option(
        "--claim", metavar="NAME", help="With --print kubernetes: the PersistentVolumeClaim for results and data."
    )
    @functools.wraps(function)
    def with_job(scheduler: Scheduler | None, **given: Any) -> Any:
        own = {name: given.pop(name) for name in ("cpus", "memory", "devices", "image", "claim")}
        for name, value in own.items():
            is_for_containers = name in ("image", "claim")
            if value is not None and (not scheduler or (is_for_containers and scheduler != "kubernetes")):
                raise UsageError(f"--{name} is given without --print{' kubernetes' if is_for_containers else ''}.")
            if is_for_containers and not value and scheduler == "kubernetes":
                raise UsageError(f"--{name} is missing.", hint=f"A Kubernetes job needs it: --{name} NAME.")
        if not scheduler:
            return function(job=None, **given)
        from mlbench.planning.schedulers.suite_job import JobDemand

        demand = JobDemand(
            scheduler=scheduler,
            cpus=own["cpus"],
            memory_gib=own["memory"],
            devices=own["devices"],
            image=own["image"] or "",
            claim=own["claim"] or "",
        )
        return function(job=demand, **given)

    return with_job


parallel_option = click.option(
    "--parallel",
    type=click.IntRange(1, MOST_LANES),
    default=1,
    show_default=True,
    metavar="LANES",
    help="Number of runs at the same time, each on its own device or cores.",
)


def output_option(
    metavar: str, text: str, *, is_file: bool = False, **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option for the file or folder that a command writes."""
    kind = click.Path(path_type=Path, dir_okay=not is_file)
    return click.option("-o", "--output", "--out", type=kind, metavar=metavar, help=text, **more)


quiet_option = click.option(
    "-q",
    "--quiet",
    "is_quiet",
    is_flag=True,
    help="Print the table and errors only: no progress, no line for each run.",
)

power_option = click.option(
    "--power",
    default=AUTO,
    show_default=True,
    metavar="NAME",
    help="Power meter: a name, auto (all that work here) or none.",
)


def _settings_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parse_settings,
        shell_complete=offer_settings,
        help=text,
    )


overrides_option = _settings_option("Setting, from `mlbench settings`; repeatable.")


def word_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the user's permission for a stored run of someone else, as `OwnWord` ``word``."""

    @click.option(
        "--trust",
        "trusts",
        is_flag=True,
        help="Allow settings of RUN that run code, name a file or a secret, or open an address.",
    )
    @_settings_option("Allow this setting of RUN; repeatable.")
    @functools.wraps(function)
    def with_word(trusts: bool, overrides: dict[str, str], **others: Any) -> Any:
        from mlbench.settings.layers import OwnWord

        return function(word=OwnWord(trusts=trusts, overrides=overrides), **others)

    return with_word


results_option, results_or_out_option = (
    click.option(
        *names,
        type=ResultsFolder(path_type=Path),
        default=results_folder,
        help="Results folder, which holds the run folders.  [default: results]",
    )
    for names in (["--results"], ["--results", "--out"])
)
tag_option = click.option(
    "--tag",
    default="",
    metavar="NAME",
    callback=_tag,
    help="Tag of the runs, as `mlbench compare` and other commands take it.",
)
across_option = click.option(
    "--across",
    multiple=True,
    metavar="FACT",
    help="Compare even if this fact differs: hardware, backend, ...; repeatable.",
)


class MarginOf(Finite):
    """A share, of one kind of numbers: ``0.05`` or ``5%`` of speeds, ``memory=5%``."""

    name = "[KIND=]SHARE"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the kind's name and the share; raises as click's own types do."""
        from mlbench.comparison.kinds import SPEED, kind_named

        kind, equals, text = str(value).rpartition("=")
        try:
            name = kind_named(kind).name if equals else SPEED.name
        except MlbenchError as error:
            self.fail(str(error), parameter, context)
        number: Any = text.strip().removesuffix("%")
        share = click.FLOAT.convert(number, parameter, context) / (100 if number != text.strip() else 1)
        return name, super().convert(share, parameter, context)


def _margins(context: click.Context, parameter: click.Parameter, found: Any) -> dict[str, float]:
    """Return the margins that were given, by kind, and that of speeds in any case: its default may be a user's."""
    defaults = parameter.type_cast_value(context, parameter.get_default(context))
    return {**dict(defaults), **dict(found)}


margin_option = click.option(
    "--margin",
    type=MarginOf(0, 1, max_open=True),
    multiple=True,
    callback=_margins,
    default=(0.05,),
    show_default="0.05 of speed and memory, 0.02 of processor-time, 0.2 of startup, 0.01 of work",
    help="Ignore relative changes smaller than this, of speeds or of KIND; repeatable.",
)
accuracy_margin_option = click.option(
    "--accuracy-margin",
    type=Finite(0, 1, max_open=True),
    default=0.005,
    show_default=True,
    help="Ignore relative losses of a score smaller than this.",
)


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that select runs, as a `Filter` argument ``wanted``."""

    @click.option("--workload", metavar="WORKLOAD", shell_complete=offer_workloads, help="Only runs of this workload.")
    @click.option("--backend", metavar="BACKEND", shell_complete=offer_backends, help="Only runs on this backend.")
    @click.option("--scenario", metavar="SCENARIO", shell_complete=offer_scenarios, help="Only runs in this scenario.")
    @click.option("--tier", type=click.Choice(["smoke", "dev", "valid"]), help="Only runs of this tier.")
    @click.option("--newest", type=click.IntRange(min=1), metavar="N", help="Only the N newest of these.")
    @functools.wraps(function)
    def with_filter(**given: Any) -> Any:
        from mlbench.records.store.selection import Filter

        own = {name: given.pop(name) for name in ("workload", "backend", "scenario", "tier", "newest")}
        return function(wanted=Filter(**own), **given)

    return with_filter
