"""A backend that hangs in every check: the kit stops trying after a few, and says the one cause."""

import pytest

from mlbench.cli.check import _left_out, _Teller, exit_status, summary
from mlbench.conformance.causes import cause_of_hang
from mlbench.conformance.engine_checks import ENGINE_CHECKS
from mlbench.conformance.isolated import CheckRequest, Finding, _Examination, _Outcome, examine, repeated_hang
from mlbench.wire.progress import ProgressMessage

NAMES = [check.__name__ for check in ENGINE_CHECKS]


def ended(cause="", *, is_hang=False, refused=""):
    return Finding(
        check="one", demand="", seconds=0, reason=cause, hint="", cause=cause, is_hang=is_hang, refused=refused
    )


HANG, OTHER_HANG, FAILURE, PASS = (
    ended("in submit", is_hang=True),
    ended("in flush", is_hang=True),
    ended("3 is not 4"),
    ended(),
)
REFUSED = ended("it has no words", refused="prompts of a language model")


@pytest.mark.parametrize(
    ("checks", "is_repeated"),
    [
        ([HANG, HANG], False),
        ([HANG, HANG, HANG], True),
        ([PASS, FAILURE, HANG, HANG, HANG], True),
        ([HANG, PASS, HANG, HANG], False),
        ([HANG, HANG, OTHER_HANG], False),
        ([FAILURE, FAILURE, FAILURE], False),
        ([HANG, REFUSED, HANG, REFUSED, HANG], True),
    ],
)
def test_three_checks_in_a_row_that_hit_the_same_hang_are_enough(checks, is_repeated):
    assert (repeated_hang(checks) is not None) == is_repeated


@pytest.mark.parametrize(
    "reason",
    [
        "no sign of life for 8 s, in Uttering.submit (right.py:130), called by submit_as_given",
        "no sign of life for 32 s, in Uttering.submit (right.py:131), called by Sut.issue",
    ],
)
def test_a_hang_is_the_same_whoever_called_and_however_long_it_lasted(reason):
    assert cause_of_hang(reason) == "hang in Uttering.submit (right.py)"


def test_hangs_that_loadgen_saw_are_the_same_whatever_samples_were_open():
    reasons = (f"the engine does not return from submit: sample {index}: no reply" for index in (3, 5))
    assert {cause_of_hang(each) for each in reasons} == {"hang: the engine does not return from submit"}


def finished(causes):
    """Let checks end of hangs, of these causes, and leave out the rest."""
    examination = _Examination(ENGINE_CHECKS, lambda finding: None)
    for name, cause in zip(NAMES, causes, strict=False):
        examination.on_message(ProgressMessage(stage=name))
        examination.on_message(ProgressMessage.of(name, _Outcome(reason=cause, cause=cause, is_hang=True)))
    examination.leave_out_rest(repeated_hang(examination.findings))
    return examination.finish()


def test_what_was_not_run_is_neither_passed_nor_failed_and_the_kit_fails():
    found = finished(["hang: in submit"] * 3)
    assert [each.check for each in found] == NAMES
    assert {(each.passed, each.failed) for each in found[3:]} == {(False, False)}
    assert summary(found) == f"0 of {len(NAMES)} checks passed, {len(NAMES) - 3} not run"
    assert exit_status(found) == 1


def test_what_was_not_run_is_told_in_a_line_each_and_its_cause_once(capsys):
    found = finished(["hang: in submit"] * 3)
    teller = _Teller()
    for each in found:
        teller.tell(each)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-len(NAMES[3:]) :] == [f"not run {name}" for name in NAMES[3:]]
    assert list(_left_out(found)) == [
        f"{len(NAMES) - 3} checks not run: 3 checks in a row hit the same hang as {NAMES[0]}: hang: in submit "
        "Fix that first; `--only CHECK` runs one check alone."
    ]


@pytest.mark.thorough("kit", but=["answering-nothing-sample 0 (one at a time) was not "])
@pytest.mark.usefixtures("broken_plugin")
@pytest.mark.parametrize(
    ("backend", "first"), [("holding-submit", "hang: "), ("answering-nothing", "sample 0 (one at a time) was not ")]
)
def test_the_kit_stops_where_a_backend_hangs_in_every_check(tmp_path, hurried, backend, first):
    told = []
    found = examine(CheckRequest(backend=backend, timeout_s=hurried), tmp_path / "log", told.append, only=NAMES)
    assert [each.check for each in found] == [each.check for each in told] == NAMES
    assert found[0].reason.startswith(first)
    assert [each.is_left_out for each in found] == [False] * 3 + [True] * (len(NAMES) - 3)
