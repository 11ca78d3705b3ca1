"""Whether the quick tests notice changes of one line that make mlbench lie.

    python benchmarks/mutants.py [--only TEXT] [--jobs 2]

Each mutant of `mutants.toml` is made in a copy of this checkout, and its tests run there: the quick ones, and where
these notice nothing those that `nox -s tests` runs as well, and then those of `nox -s thorough`. Prints a line for each
and the number that no test noticed; exit status 1 when there are any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import click

CHECKOUT = Path(__file__).parents[1]
PACKAGES = ("", "plugins", "workloads")
PARTS = ("mlbench", "plugins", "workloads", "tests", "examples", "benchmarks", "docs")
NO_TEST_FAILED = 0
A_TEST_FAILED = 1
NO_TESTS = 5

_HERE = "not gpu and not data and not cluster"
SESSIONS = {
    "quick": f"not slow and {_HERE}",
    "tests": f"slow and not thorough and {_HERE}",
    "thorough": f"thorough and {_HERE}",
}
"""Marks of the tests that a session adds to those of the one before."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line, what it is changed to, and which tests must fail for it."""

    meaning: str
    file: str
    line: str
    mutant: str
    tests: tuple[str, ...]


def read_mutants() -> list[Mutant]:
    """Return the mutants in the order of their file."""
    tables = tomllib.loads((CHECKOUT / "benchmarks/mutants.toml").read_text())["mutants"]
    return [Mutant(**{**table, "tests": tuple(table["tests"])}) for table in tables]


@contextmanager
def mutated(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Change the line in a copy of the checkout, and change it back.

    Raises:
        ValueError: the line does not stand there exactly once.
    """
    file = copy / mutant.file
    text = file.read_text()
    if (count := text.count(mutant.line)) != 1:
        raise ValueError(f"{mutant.file} has {count} times: {mutant.line}")
    file.write_text(text.replace(mutant.line, mutant.mutant))
    try:
        yield
    finally:
        file.write_text(text)


def noticed_by(copy: Path, mutant: Mutant) -> tuple[str, str]:
    """Return the session whose tests notice a mutant in the copy, and the line of the first; empty where none does.

    Raises:
        ClickException: the tests did not run.
    """
    for session, marks in SESSIONS.items():
        done = run_tests(copy, mutant, marks)
        if done.returncode == A_TEST_FAILED:
            return session, next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
        if done.returncode not in (NO_TEST_FAILED, NO_TESTS):
            raise click.ClickException(f"the tests of {mutant.file} did not run:\n{done.stdout}{done.stderr}")
    return "", ""


def run_tests(copy: Path, mutant: Mutant, marks: str) -> subprocess.CompletedProcess[str]:
    """Run a mutant's tests with some marks on the copy, up to the first that fails."""
    paths = [str(copy / package) for package in PACKAGES]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", marks, *mutant.tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def copy_checkout(copy: Path) -> Path:
    """Copy what the tests read, and return the copy's folder."""
    for part in PARTS:
        shutil.copytree(CHECKOUT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for file in ("pyproject.toml", "noxfile.py", "README.md", "CHANGELOG.md", "constraints.txt"):
        shutil.copy(CHECKOUT / file, copy)
    return copy


@click.command()
@click.option("--only", default="", help="Mutants whose meaning or file contains this text.")
@click.option("--jobs", default=1, type=click.IntRange(1), help="How many are tried side by side.")
def main(only: str, jobs: int) -> None:
    """Make each mutant and run its tests."""
    chosen = [mutant for mutant in read_mutants() if only in mutant.meaning or only in mutant.file]
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copy_checkout(Path(folder, str(number))))

        def tried(mutant: Mutant) -> tuple[str, str]:
            copy = copies.get()
            try:
                with mutated(copy, mutant):
                    return noticed_by(copy, mutant)
            finally:
                copies.put(copy)

        for mutant, (session, failed) in zip(chosen, pool.map(tried, chosen), strict=True):
            unnoticed += not session
            found = f"noticed ({session})" if session else "UNNOTICED"
            click.echo(f"{found}: {mutant.file}: {mutant.meaning}. {failed}"[:200])
    click.echo(f"{unnoticed} of {len(chosen)} mutants unnoticed")
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
