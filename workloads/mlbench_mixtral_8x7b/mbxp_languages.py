"""Runs MBXP's programs in each language, and decides which pass.

Source: mxeval's `check_correctness` functions, at the commit that MLPerf Inference v4.1 names.
"""

from __future__ import annotations

import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench import UnavailableError
from mlbench.toolkit import Ending, Folder, Outcome, Sandbox, SandboxLimits

PASSED = "passed"

_RUN = SandboxLimits(wall_s=20.0)
_COMPILE = SandboxLimits(wall_s=100.0, cpu_s=100.0)
_PYTHON = SandboxLimits(wall_s=23.0)
"""`mbxp_python` ends a program after 20 s; this limit is for one that cannot be ended so."""

_PYTHON_CHECKER = Path(__file__).with_name("mbxp_python.py")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_NODE_MODULES = ("/usr/local/lib/node_modules", "/usr/lib/node_modules", "/usr/share/nodejs")
_LONGEST_MESSAGE = 200
_PROOF = ("true",)
"""A program that runs wherever there is a sandbox."""
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(ABC):
    """A runner for the programs of a language."""

    needs: tuple[str, ...] = ()
    """Programs that must be installed, by name."""
    answer: str
    """A solution that passes its ``test`` wherever the language can be run."""
    test: str
    library: str = ""
    """Libraries that tests may load besides the language's own."""
    loads_library: str = ""
    """The line of a test that does."""

    @abstractmethod
    def outcome(self, solution: str, test: str, entry_point: str, interpreters: Interpreters) -> str:
        """Run a solution with its test, and return ``passed``, ``timed out`` or ``failed: <message>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(Language):
    """Run by a program of ours inside the sandbox, which then reports the outcome behind a random word."""

    def outcome(self, solution: str, test: str, entry_point: str, interpreters: Interpreters) -> str:
        """Run a solution with its test."""
        word = secrets.token_hex(16)
        program = f"{word}\n{solution}\n{test}\ncheck({entry_point})"
        command = [sys.executable, "-I", "-c", _PYTHON_CHECKER.read_text(encoding="utf-8")]
        outcome = interpreters.sandbox.run(command, stdin=program.encode(), limits=_PYTHON, environment=_ONE_THREAD)
        if outcome.succeeded and outcome.stdout.startswith(f"{word} ".encode()):
            return outcome.stdout.decode(errors="replace").removeprefix(f"{word} ")
        return _failure(outcome)  # it did not get so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Language):
    """Written to a file, compiled if need be, and run; status 0 passes."""

    file: str
    run: tuple[str, ...]
    """The command; its first word is one of ``needs``, or in the folder."""
    compile: tuple[str, ...] = ()
    compiled_status: int = 0

    def outcome(self, solution: str, test: str, entry_point: str, interpreters: Interpreters) -> str:
        """Run a solution with its test."""
        with interpreters.sandbox.folder({self.file: solution + test}) as folder:
            if self.compile:
                compiled = interpreters.run(folder, self.compile, _COMPILE)
                if compiled.ending is not Ending.EXIT or compiled.returncode != self.compiled_status:
                    return _failure(compiled)
            outcome = interpreters.run(folder, self.run, _RUN)
        return PASSED if outcome.succeeded else _failure(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreters:
    """Sandbox and tools for running programs."""

    sandbox: Sandbox
    """Open."""
    programs: Mapping[str, Path]
    """Compilers and interpreters by name, as far as they are installed."""

    def reason_against(self, language: str, tests: Sequence[str]) -> str:
        """Return the reason why a language cannot be scored here (a right answer would fail); empty if it can.

        Args:
            language: its name.
            tests: all tests that are to be run.
        """
        if language not in LANGUAGES:
            return "it does not count officially"
        known = LANGUAGES[language]
        if missing := [name for name in known.needs if name not in self.programs]:
            return f"{' and '.join(missing)} not installed"
        test = known.test
        if known.library and any(known.library in each for each in tests):
            test += known.loads_library
        outcome = self.outcome(language, known.answer, test, "one")
        return "" if outcome == PASSED else f"a right answer does not pass here: {' '.join(outcome.split())}"

    def outcome(self, language: str, solution: str, test: str, entry_point: str) -> str:
        """Run a solution with its test, and return ``passed``, ``timed out`` or ``failed: <message>``.

        A program that breaks the sandbox fails, as long as the sandbox can run another one.

        Raises:
            UnavailableError: it cannot.
        """
        try:
            return LANGUAGES[language].outcome(solution, test, entry_point, self)
        except UnicodeError:  # as officially, for the program as for what it writes
            return "failed: not UTF-8"
        except Exception as error:  # one program must not end the scoring of all others
            self._require_sandbox()
            return f"failed: {' '.join(str(error).split())[:_LONGEST_MESSAGE] or type(error).__name__}"

    def _require_sandbox(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self.sandbox.run(_PROOF)
                return
            except UnavailableError:
                if attempt == _ATTEMPTS - 1:
                    raise

    def run(self, folder: Folder, command: Sequence[str], limits: SandboxLimits) -> Outcome:
        """Run a command whose first word may be the name of an installed program.

        Raises:
            UnicodeError: its output is not text.
        """
        program, *arguments = command
        path = str(self.programs.get(program, program))
        outcome = folder.run([path, *arguments], limits=limits, environment=self._environment())
        outcome.stdout.decode(), outcome.stderr.decode()
        return outcome

    def _environment(self) -> dict[str, str]:
        """Return the folder of node's global libraries."""
        own = [self.programs["node"].resolve().parents[1] / "lib/node_modules"] if "node" in self.programs else []
        return {"NODE_PATH": ":".join(map(str, [*own, *_NODE_MODULES]))}


def _failure(outcome: Outcome) -> str:
    if outcome.timed_out:
        return "timed out"
    if outcome.ending is not Ending.EXIT:
        return f"failed: {outcome.ending}"
    said = outcome.stderr.decode(errors="replace").strip() or outcome.stdout.decode(errors="replace").strip()
    return f"failed: status {outcome.returncode}: {said[:_LONGEST_MESSAGE]}"


LANGUAGES: Mapping[str, Language] = {
    "python": Python(answer="one = lambda: 1", test="def check(candidate):\n    assert candidate() == 1"),
    "cpp": Command(
        needs=("g++",),
        file="main.cpp",
        compile=("g++", "main.cpp", "-o", "main_cpp"),
        run=("./main_cpp",),
        answer="#include <bits/stdc++.h>\nusing namespace std;\nint one() { return 1; }",
        test='\nint main() { if (one() != 1) throw runtime_error(""); }',
    ),
    "javascript": Command(
        needs=("node",),
        file="main.js",
        run=("node", "main.js"),
        answer="function one() { return 1; }",
        test="\nif (one() !== 1) { throw 'wrong' }",
        library="lodash",
        loads_library="\nrequire('lodash')",
    ),
    "php": Command(
        needs=("php",),
        file="main.php",
        run=("php", "main.php"),
        answer="<?php function one() { return 1; }",
        test="\nif (one() !== 1) { throw new Exception(); }",
    ),
    "ruby": Command(
        needs=("ruby",),
        file="main.rb",
        run=("ruby", "main.rb"),
        answer="def one()\n  1\nend",
        test="\nraise if one() != 1",
    ),
    "typescript": Command(
        needs=("tsc", "node"),
        file="main.ts",
        compile=("tsc", "main.ts", "--target", "es5", "--lib", "es2016"),
        compiled_status=2,  # complaints, but a result: the tests import what is not declared
        run=("node", "main.js"),
        answer="function one(): number { return 1; }",
        test="\nimport * as assert from 'assert'\nassert.deepEqual(one(), 1);",
    ),
}
"""The languages that count officially."""
