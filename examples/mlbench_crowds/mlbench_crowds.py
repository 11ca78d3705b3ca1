"""Crowds, a workload of mlbench for a server: many users at once, again and again, and nobody in between."""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge, Gt, Le
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import TextPrompts, open_prompts
from mlbench_endpoint.loads.workload import PromptsWorkload

from mlbench import Workload, hookimpl


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdOptions(PromptOptions):
    """Options of the workload ``crowds``: those of ``prompts``, and the size of the crowds."""

    crowds: Annotated[int, Ge(2), Le(10_000)] = 4
    """Number of crowds."""
    users: Annotated[int, Ge(1), Le(10_000)] = 10
    """Requests of a crowd, all at the same time."""
    every_s: Annotated[float, Gt(0), Le(3600)] = 2.0
    """Seconds from one crowd to the next."""


class CrowdsWorkload(PromptsWorkload):
    """Prompts that arrive together; the scenario Schedule sends them at their times, and says how late it was."""

    name = "crowds"
    title = "prompts for a server that arrive in crowds; for the scenario Schedule"
    options = CrowdOptions()
    rules = replace(PromptsWorkload.rules, offline_min_samples=None)  # each prompt once, as a schedule wants it

    def prompts(self, options: CrowdOptions) -> TextPrompts:
        """Return a prompt for each user of each crowd, with the time of the crowd."""
        count = options.crowds * options.users
        given = open_prompts(replace(options, count=count))
        times_s = [options.every_s * (number // options.users) for number in range(count)]
        return TextPrompts.of(
            [replace(given.sample(number), due_ns=round(1e9 * at_s)) for number, at_s in enumerate(times_s)]
        )


@hookimpl
def mlbench_workloads() -> list[Workload]:
    """Return the workload."""
    return [CrowdsWorkload()]
