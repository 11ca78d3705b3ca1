"""MBXP: runs an answer's program with its problem's test, in a sandbox.

Source: MLPerf Inference v4.1, language/mixtral-8x7b/evaluate_mbxp.py, and mxeval at the commit it names.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mlbench.toolkit import Sandbox, usable_threads
from mlbench_mixtral_8x7b.mbxp_languages import LANGUAGES, PASSED, Interpreters


@dataclass(frozen=True, slots=True, kw_only=True)
class MbxpSample:
    """One answer, and the test it must pass."""

    id: str
    """Language and entry point: ``python_add_pair``."""
    answer: str
    """The model's answer, decoded, without the prompt."""
    test: str
    """The ground truth: test code in the same language."""

    @property
    def language(self) -> str:
        """The language: the id before its first underscore."""
        return self.id.partition("_")[0]

    @property
    def entry_point(self) -> str:
        """The name that the test calls: the id after its first underscore."""
        return self.id.partition("_")[2]

    @property
    def solution(self) -> str:
        """The answer up to a closing fence, and with the underscores that Mixtral escapes as they should be."""
        text, _, _ = self.answer.partition("```")
        if self.language == "python":
            text = text.lstrip()
        return text.replace("\\_", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class MbxpVerdict:
    """The outcome of an answer."""

    language: str
    passed: bool | None
    """Whether it passed; None if it was not run."""
    outcome: str
    """``passed``, ``timed out``, ``failed: <message>``, or the reason why it was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MbxpResult:
    """The verdicts, in the order of the samples."""

    verdicts: tuple[MbxpVerdict, ...]
    unscored: Mapping[str, str]
    """Languages whose programs were not run, each with the reason in one line."""
    isolation: str
    """The isolation of the programs: ``namespaces``."""

    @property
    def score(self) -> float:
        """100 x passed / samples in the six official languages; 0 where there are none.

        A language that cannot be run here stays in the denominator, as it does officially where its interpreter is
        missing: what was not run can only lower the score.
        """
        counts = [self.by_language[language] for language in LANGUAGES if language in self.by_language]
        samples = sum(number for _, number in counts)
        return 100 * sum(passed for passed, _ in counts) / samples if samples else 0.0

    @property
    def by_language(self) -> Mapping[str, tuple[int, int]]:
        """Passed and all samples of each language."""
        samples = Counter(verdict.language for verdict in self.verdicts)
        passed = Counter(verdict.language for verdict in self.verdicts if verdict.passed)
        return {language: (passed[language], number) for language, number in samples.items()}


def score_mbxp(samples: Sequence[MbxpSample], sandbox: Sandbox, *, workers: int = 0) -> MbxpResult:
    """Run each answer's program with its test, and return the verdicts.

    An answer takes as long as its program: up to 20 s if it does not end.

    Args:
        samples: in any order; languages may be mixed.
        sandbox: `Sandbox.available()`, not opened.
        workers: how many programs run at once; 0 for one per processor.

    Raises:
        UnavailableError: the sandbox cannot start programs.
    """
    programs = _programs()
    with (
        sandbox.showing(programs.values()) as opened,
        ThreadPoolExecutor(workers or usable_threads()) as pool,
    ):
        interpreters = Interpreters(sandbox=opened, programs=programs)
        languages = list(dict.fromkeys(sample.language for sample in samples))
        tests = [[sample.test for sample in samples if sample.language == language] for language in languages]
        reasons = pool.map(interpreters.reason_against, languages, tests)
        unscored = {language: reason for language, reason in zip(languages, reasons, strict=True) if reason}

        def verdict(sample: MbxpSample) -> MbxpVerdict:
            if sample.language in unscored:
                return MbxpVerdict(language=sample.language, passed=None, outcome=unscored[sample.language])
            outcome = interpreters.outcome(sample.language, sample.solution, sample.test, sample.entry_point)
            return MbxpVerdict(language=sample.language, passed=outcome == PASSED, outcome=outcome)

        verdicts = tuple(pool.map(verdict, samples))
    return MbxpResult(verdicts=verdicts, unscored=unscored, isolation=sandbox.wall)


def _programs() -> Mapping[str, Path]:
    """Return the paths of the installed compilers and interpreters."""
    names = sorted({name for language in LANGUAGES.values() for name in language.needs})
    return {name: Path(path).absolute() for name in names if (path := shutil.which(name))}
