"""A suite's job as a batch script for Slurm.

Source: the manual pages sbatch(1) and srun(1) of Slurm 24.05.
"""

from __future__ import annotations

import shlex
import shutil
import sysconfig
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.planning.schedulers.suite_job import SuiteJob

_DEVICE = "gpu"
"""Slurm's usual name of an accelerator among a node's generic resources."""


def slurm_script(job: SuiteJob) -> str:
    """Return the script: sbatch reads what the job needs from its first lines, the node's bash runs the rest.

    Paths are those of this machine: the node must have them under the same names.

    Raises:
        UsageError: the program mlbench is not found.
    """
    options = {
        "job-name": job.name,
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": job.cpus,
        "mem": f"{job.memory_gib}G",
        "exclusive": None,  # what else runs on the node would be measured too
        "gres": f"{job.devices.kind or _DEVICE}:{job.devices.count}" if job.devices.count else "",
        "requeue" if job.is_continued else "no-requeue": None,
        "open-mode": "append",  # a job that is queued again keeps its log
    }
    given = [f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={value}" for name, value in options.items()]
    # srun takes the number of threads from no one else, and keeps the runs to them on a larger node
    command = ["srun", "--ntasks=1", f"--cpus-per-task={job.cpus}", "--cpu-bind=cores", str(_program()), *job.words]
    lines = [
        "#!/bin/bash",
        *(line for line in given if not line.endswith("=")),
        "",
        *_comments(job),
        "set -eu",
        f"cd {shlex.quote(str(Path.cwd()))}",
        *(f"export {name}={shlex.quote(value)}" for name, value in job.environment.items()),
        f"exec {shlex.join(command)}",
    ]
    return "\n".join(lines) + "\n"


def _comments(job: SuiteJob) -> tuple[str, ...]:
    if job.is_continued:
        return (
            f"# Makes the runs of the suite {job.suite} that are missing or failed.",
            "# Submitted again, or queued again by Slurm after its node was lost, it continues where it stopped.",
        )
    return (
        f"# Makes all runs of the suite {job.suite} anew each time it is submitted (--fresh).",
        "# So Slurm must not queue it again by itself.",
    )


def _program() -> Path:
    """Return where this installation's mlbench is."""
    beside = Path(sysconfig.get_path("scripts")) / "mlbench"
    found = str(beside) if beside.is_file() else shutil.which("mlbench")
    if not found:
        raise UsageError("the program mlbench is not found.", hint="Put its folder into PATH.")
    return Path(found).absolute()
