"""How long commands that only look take to start, as a ratio to a bare click program: at most three.

``python benchmarks/startup.py`` measures all in turns and prints for each the median of its processor time over that of
a click program with one empty command, both with Python's own start. Processor time, since other work on the machine
moves the wall clock. Exit status 1 where a ratio is above `MOST`.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
MOST = 3.0
ROUNDS = 15
BARE = """
import click
@click.command()
def main(): "A command."
main(["--help"])
"""
MLBENCH = "from mlbench.cli import main; main({})"
PROGRAMS = {
    "bare click": BARE,
    "mlbench --help": MLBENCH.format(["--help"]),
    "mlbench list": MLBENCH.format(["list"]),
    "mlbench settings --help": MLBENCH.format(["settings", "--help"]),
}


def processor_s(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-P", "-c", code], stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    for code in PROGRAMS.values():
        processor_s(code)  # writes the bytecode
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(ROUNDS):
        for name, code in PROGRAMS.items():
            found[name].append(processor_s(code))
    bare = statistics.median(found["bare click"])
    ratios = {name: statistics.median(times) / bare for name, times in found.items()}
    for name, ratio in ratios.items():
        print(f"{name:<24} {ratio:5.2f} x  ({statistics.median(found[name]) * 1e3:.0f} ms)")
    return 0 if max(ratios.values()) <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
