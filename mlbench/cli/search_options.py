"""Options of commands that search: ``mlbench tune`` and ``mlbench curve``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.completions import offer_limits
from mlbench.cli.options import Finite, PrecisionName
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.tuner.own_limits import settings_of_limits

if TYPE_CHECKING:
    from mlbench.contracts.precision import Precision
    from mlbench.planning.user_model import UserModel

precision_option = click.option(
    "--precision",
    type=PrecisionName(),
    help="Precision to compute in.  [default: the backend's first]",
)
limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=TIME",
    shell_complete=offer_limits,
    help="Limit stricter than the rules': latency=10ms, ttft=1s or tpot=50ms; repeatable.",
)
budget_option = click.option(
    "--budget",
    type=Finite(0, min_open=True),
    metavar="MINUTES",
    help="Time limit: no run starts that would end after it.",
)
plan_option = click.option(
    "--plan", "only_plans", is_flag=True, help="Print the planned runs and their duration, and run nothing."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object, and nothing else, to stdout.")


def as_search(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command its options as a `TuneRequest` argument ``request``, with ``plugins`` and ``budget_s``."""

    @functools.wraps(function)
    def with_request(
        *,
        backend: str | None,
        precision: Precision | None,
        limits: tuple[str, ...],
        budget: float | None,
        workload: str | None,
        model: UserModel | None,
        profile: str,
        overrides: dict[str, object],
        **given: Any,
    ) -> int:
        from mlbench.rules.tiers import Tier
        from mlbench.tuner.tune_plan import TuneRequest

        plugins = Plugins.discover()
        if bool(workload) == bool(model):
            hint = "Name a workload, or your own model with --model."
            raise UsageError("a workload and a model are given." if model else "no workload is given.", hint=hint)
        if model:
            workload, overrides = model.workload_name(plugins), {**model.settings(), **overrides}
        assert workload
        only_profile = plugins.workload_of(workload, overrides).only_profile
        as_given = ("scenario", "round", "wants_accuracy", "power", "results")
        request = TuneRequest(
            workload=workload,
            overrides=overrides,
            backend=backend or plugins.best_backend(precision).name,
            profile=only_profile or Profile(profile),
            tier=Tier(given.pop("tier")),
            weights=Weights(given.pop("weights")),
            precision=precision,
            limits=settings_of_limits(limits),
            **{name: given.pop(name) for name in as_given if name in given},
        )
        budget_s = float("inf") if budget is None else 60 * budget
        return function(request=request, plugins=plugins, budget_s=budget_s, **given)

    return with_request
