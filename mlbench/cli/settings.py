"""``mlbench settings``: each setting a run would use, and the layer it came from."""

from __future__ import annotations

import json

import click

from mlbench.cli.options import overrides_option, profile_option, tier_option
from mlbench.cli.output import echo_json, echo_line


@click.command("settings")
@click.argument("workload")
@click.argument("backend")
@click.option("--scenario", default="Offline", show_default=True, help="See `mlbench list`.")
@profile_option
@tier_option
@overrides_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    workload: str, backend: str, scenario: str, profile: str, tier: str, overrides: dict[str, str], as_json: bool
) -> None:
    """Print each setting of WORKLOAD on BACKEND, its value and the layer it came from.

    A later layer overrides an earlier one; README names them in order.
    """
    from mlbench.contracts.workload import Profile
    from mlbench.discovery import Plugins
    from mlbench.rules.tiers import Tier
    from mlbench.runner import RunRequest, settings_of

    request = RunRequest(
        workload=workload,
        backend=backend,
        scenario=scenario,
        profile=Profile(profile),
        tier=Tier(tier),
        overrides=overrides,
    )
    found = settings_of(request, Plugins.discover())
    settings = found.by_key
    if as_json:
        values = found.plain()
        echo_json(
            json.dumps({key: {"value": values[key], "layer": each.layer} for key, each in settings.items()}, indent=2)
        )
        return
    width = max(map(len, settings))
    for key, setting in settings.items():
        shown = '""' if setting.value == "" else setting.value
        echo_line(f"{key:<{width}}  {shown!s:<12}  {setting.layer}")
