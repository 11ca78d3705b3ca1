"""The files of a test as a submission has them, in the test's run folder."""

from __future__ import annotations

import filecmp
import tempfile
from pathlib import Path

from mlbench.loadgen.settings import Mode
from mlbench.rules.audit_config import OF_TOKENS
from mlbench.submission.auditing.verdicts import AuditVerdict
from mlbench.submission.compliance_files import TestFiles, write_test
from mlbench.system.documents import is_file


def write_files(verdict: AuditVerdict, place: Path | None = None) -> Path | None:
    """Write ``TEST01/`` and so on, as a tree's folder ``compliance`` has it; None where the test has no logs.

    Args:
        verdict: on the test.
        place: the folder to write into; None: the test's run folder.

    Raises:
        StorageError: it cannot be written.
    """
    if verdict.performance is None and verdict.replies is None:
        return None
    files = TestFiles(
        test=verdict.test,
        performance="" if verdict.test == OF_TOKENS else performance_text(verdict),
        accuracy=verdict.replies.text if verdict.replies else "",
        scores=verdict.replies.scores if verdict.replies else None,
    )
    return write_test(place or verdict.folder, files, verdict.folder / Mode.PERFORMANCE)


def edited_files(verdict: AuditVerdict) -> list[str]:
    """Return which files in ``TEST01/`` and so on do not follow from the verdict and the logs of the test's run.

    Raises:
        StorageError: they cannot be written once more, to compare them.
    """
    with tempfile.TemporaryDirectory() as place:
        wanted = write_files(verdict, Path(place))
        folders = [verdict.folder / verdict.test, *([wanted] if wanted else [])]
        contents = [{each.relative_to(root): each for each in root.rglob("*") if is_file(each)} for root in folders]
        names = sorted({name for content in contents for name in content})
        return [
            name.as_posix()
            for name in names
            if not all(name in content for content in contents)
            or not filecmp.cmp(contents[0][name], contents[-1][name], shallow=False)
        ]


def performance_text(verdict: AuditVerdict) -> str:
    """Return ``verify_performance.txt``. It passes where ours does, problems with the test's run included."""
    found = verdict.performance
    if found is None:
        return "Verifying performance.\nTEST FAIL: there is no result to compare\n"
    passed = found.passed and not verdict.problems
    return (
        "Verifying performance.\n"
        f"reference score = {found.reference:.12g}\n"
        f"test score = {found.measured:.12g}\n"
        f"change = {found.change:+.2%}, limit {found.margin:.0%}\n"
        f"TEST {'PASS' if passed else 'FAIL'}\n"
    )
