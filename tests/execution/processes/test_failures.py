"""Errors on their way from one process to another."""

from dataclasses import asdict

import pytest

from mlbench import GraphError, UsageError
from mlbench.errors import DataError, MlbenchError
from mlbench.execution.processes.failures import (
    ErrorReport,
    FailureKind,
    ProcessEndedError,
    describe_exit,
    error_from_wire,
    error_to_wire,
    report_from_values,
)


@pytest.mark.parametrize(
    "error",
    [
        UsageError("backend.speed is 11.", hint="Expected 1 to 10."),
        DataError("weights are corrupt."),
        GraphError("operator Det.", hint="Use fp32."),
        MlbenchError(""),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_a_user_can_act_on_arrives_as_it_was(error):
    arrived = error_from_wire(report_from_values(asdict(error_to_wire(error))))
    assert (type(arrived), arrived.message, arrived.hint) == (type(error), error.message, error.hint)


def test_an_error_of_a_class_of_a_plugins_own_arrives_as_the_class_it_is_made_from():
    class NoLicenceError(UsageError):
        pass

    arrived = error_from_wire(error_to_wire(NoLicenceError("no licence.", hint="Buy one.")))
    assert (type(arrived), str(arrived)) == (UsageError, "no licence. Buy one.")


def test_an_error_that_was_never_made_properly_arrives_too():
    class HalfMadeError(UsageError):
        def __init__(self):
            pass

    assert type(error_from_wire(error_to_wire(HalfMadeError()))) is UsageError


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"message": "m", "class_name": "annotations"}, "m"),
        ({"message": "m", "class_name": "NoSuchError"}, "m"),
        ({"message": "m", "kind": "no such kind"}, "m"),
        ({"message": ["m"], "hint": 3}, "['m'] 3"),
        ({}, ""),
        ("text", "text"),
        (None, "None"),
    ],
)
def test_what_is_hardly_a_report_is_an_error_all_the_same(values, told):
    arrived = error_from_wire(report_from_values(values))
    assert isinstance(arrived, ProcessEndedError)
    assert (arrived.kind, str(arrived)) == (FailureKind.EXCEPTION, told)


def test_a_long_text_is_cut():
    report = error_to_wire(ValueError("x" * 10**6))
    assert len(report.message) < 30_000
    assert report.message.endswith("...")


def test_an_error_without_a_message_is_described_by_its_class():
    assert error_to_wire(ValueError()).message == "ValueError"


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (0, FailureKind.EXIT, "left with status 0 before it was done"),
        (-11, FailureKind.CRASH, "was ended by SIGSEGV"),
        (-40, FailureKind.CRASH, "was ended by signal 40"),
    ],
)
def test_the_end_of_a_process_is_described(status, kind, told):
    assert describe_exit(status, oom_kills=10**9) == (kind, told)


def test_a_report_says_what_kind_of_failure_it_is():
    assert error_to_wire(MemoryError()) == ErrorReport(message="MemoryError", kind=FailureKind.OUT_OF_MEMORY)
    assert error_to_wire(ProcessEndedError("gone", FailureKind.HANG)).kind is FailureKind.HANG
