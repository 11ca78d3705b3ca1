"""Versions of a product, each with its mlbench: installations that are there, or commits, installed when needed."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mlbench.comparison.bisection import Candidate
from mlbench.errors import MlbenchError, UsageError, one_line
from mlbench.running.turns import Command

_COMMITS = "commits"


class Installations(Protocol):
    """Versions in order, and how each is run."""

    @property
    def versions(self) -> tuple[Candidate, ...]:
        """The good end first."""

    @property
    def key(self) -> Sequence[str]:
        """What tells them from others."""

    def command(self, place: int, folder: Path) -> Command:
        """Return the mlbench of a version, ready to run; what it installs is in a folder.

        Raises:
            MlbenchError: it cannot be installed.
        """

    def clean_up(self, place: int, folder: Path) -> None:
        """Remove what `command` installed for a version."""


class Listed:
    """Installations that are there, each by its command."""

    def __init__(self, commands: Sequence[str]) -> None:
        """Raise `UsageError` where one is no program."""
        self._commands = [Command(text) for text in commands]
        self.versions = tuple(Candidate(name=text) for text in commands)
        self.key = tuple(commands)

    def command(self, place: int, folder: Path) -> Command:
        """Return the mlbench of a version."""
        return self._commands[place]

    def clean_up(self, place: int, folder: Path) -> None:
        """Leave it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Commits of a repository, each in a clone of its own: the user's working tree stays as it is.

    Nothing runs but git and the two commands of the user.
    """

    repository: Path
    versions: tuple[Candidate, ...]
    install: str
    """A shell's command line that installs a commit, and runs in its clone; empty: there is nothing to install."""
    mlbench: str
    """The command of its mlbench. In both ``{commit}`` and ``{folder}`` stand for the commit's hash and its clone."""
    _ready: dict[int, Command] = field(default_factory=dict)

    @property
    def key(self) -> Sequence[str]:
        """What tells them from others."""
        ends = (self.versions[0].name, self.versions[-1].name)
        return (str(self.repository.resolve()), *ends, self.install, self.mlbench)

    def command(self, place: int, folder: Path) -> Command:
        """Check a commit out and install it, unless that was done, and return its mlbench; raises as the protocol's."""
        if place not in self._ready:
            commit = self.versions[place].name
            clone, mark = self._clone(place, folder), self._mark(place, folder)
            if not mark.exists():
                shutil.rmtree(clone, ignore_errors=True)
                clone.parent.mkdir(parents=True, exist_ok=True)
                objects = _git(self.repository, "rev-parse", "--path-format=absolute", "--git-common-dir")
                _git(self.repository, "clone", "--quiet", "--shared", "--no-checkout", objects, str(clone))
                _git(clone, "checkout", "--quiet", "--detach", commit)
                self._run_install(commit, clone)
                mark.touch()
            self._ready[place] = Command(_fill_in(self.mlbench, commit, clone))
        return self._ready[place]

    def _clone(self, place: int, folder: Path) -> Path:
        return folder.absolute() / _COMMITS / self.versions[place].name

    def _mark(self, place: int, folder: Path) -> Path:
        """Return the file that is there once a commit is installed."""
        return self._clone(place, folder).with_suffix(".ready")

    def _run_install(self, commit: str, clone: Path) -> None:
        if not self.install:
            return
        log = clone.with_suffix(".log")
        with log.open("wb") as file:
            done = subprocess.run(
                ["sh", "-c", _fill_in(self.install, commit, clone)],
                cwd=clone,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            last = one_line("\n".join(reversed(log.read_text(errors="replace").splitlines()))) or "it printed nothing"
            raise MlbenchError(f"--install ended with status {done.returncode}: {last} ({log} has all of it)")

    def clean_up(self, place: int, folder: Path) -> None:
        """Remove a commit's clone."""
        self._ready.pop(place, None)
        self._mark(place, folder).unlink(missing_ok=True)
        shutil.rmtree(self._clone(place, folder), ignore_errors=True)


def _fill_in(text: str, commit: str, clone: Path) -> str:
    return text.replace("{commit}", commit).replace("{folder}", shlex.quote(str(clone)))


def commits_between(repository: Path, good: str, bad: str) -> tuple[Candidate, ...]:
    """Return the commits from one to another, both included, oldest first; of a merge the side that it was made on.

    Raises:
        UsageError: it is no repository, there is no such commit, or the bad one does not come from the good one.
    """
    first, last = (_commit(repository, name) for name in (good, bad))
    if first == last:
        raise UsageError(f"{good} and {bad} are the same commit.", hint="Name two commits.")
    found = []
    for line in _git(repository, "log", "--first-parent", "--no-show-signature", "-z", "--format=%H %s", last).split(
        "\0"
    ):
        commit, _, subject = line.partition(" ")
        found.append(Candidate(name=commit, subject=subject))
        if commit == first:
            return tuple(reversed(found))
    hint = "Name a commit that `git log --first-parent` of the bad one lists; a shallow clone lacks the older ones."
    raise UsageError(f"{bad} does not come from {good}.", hint=hint)


def _commit(repository: Path, name: str) -> str:
    _git(repository, "rev-parse", "--git-dir")  # a folder that is no repository has its own message
    try:
        return _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except UsageError:
        raise UsageError(f"there is no commit {name!r} in {repository}.", hint="Name a commit or a tag.") from None


def _git(repository: Path, *words: str) -> str:
    """Return what git prints."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *words], capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise UsageError(f"git cannot be started: {error.strerror}.", hint="Install git.") from None
    if done.returncode:
        said = one_line(done.stderr).rstrip(".") or f"git {words[0]} ended with status {done.returncode}"
        raise UsageError(f"{repository}: {said}.", hint="--repo names a git repository.")
    return done.stdout.strip()
