"""Checks that fail of one cause are told as one, with whose code it was."""

import dataclasses
from unittest.mock import Mock

import pytest

from mlbench import GraphBackend, GraphError, Probe
from mlbench.cli.check import _shared_causes, _Teller
from mlbench.conformance.causes import raised_in
from mlbench.conformance.graph_checks import equals_the_module, keeps_rows_apart, remembers_nothing
from mlbench.conformance.isolated import Finding, _outcome
from mlbench.conformance.subject import Subject
from mlbench.contracts.precision import Precision
from mlbench.errors import ConformanceError, PluginError
from mlbench.execution.call_counts import CountedExecutable

CHECKS = (equals_the_module, keeps_rows_apart, remembers_nothing)


class Exporting(GraphBackend):
    """Takes graphs as ONNX files."""

    name = "exporting"

    def probe(self):
        return Probe(is_available=True, precisions=[Precision.FP32])

    def compile(self, graph, precision):
        return graph.onnx()


class Broken(Exporting):
    """Fails by itself."""

    def compile(self, graph, precision):
        raise RuntimeError(f"no kernel for {graph.name}")


class Wrong(Exporting):
    """Computes something else with each graph."""

    def compile(self, graph, precision):
        module = graph.module()
        return lambda inputs: {"logits": next(iter(inputs.values()))[:, :1] * 0.0, "module": module}


def findings_of(backend, checks=CHECKS):
    subject = Subject(backend=backend, precision=Precision.FP32)
    return [
        Finding(check=check.__name__, demand="It contains.", seconds=0, **dataclasses.asdict(_outcome(check, subject)))
        for check in checks
    ]


@pytest.fixture
def failing_export(monkeypatch, tmp_path):
    """Let torch's exporter fail, as it does where its version does not know an operator."""
    torch = pytest.importorskip("torch")

    monkeypatch.setattr(torch.onnx, "export", Mock(side_effect=RuntimeError("no decomposition")))
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))


@pytest.mark.usefixtures("failing_export")
def test_an_export_that_fails_is_one_cause_of_many_checks_and_not_the_backends():
    findings = findings_of(Exporting())
    (line,) = _shared_causes(findings)
    assert line.startswith("graph image cannot be exported to ONNX: no decomposition. Raised in ")
    assert line.endswith(
        "mlbench/execution/export/onnx_export.py of mlbench, not in the backend. "
        "3 checks failed for this reason: equals_the_module, keeps_rows_apart, remembers_nothing."
    )


def test_what_the_backend_raises_is_its_own_and_one_cause_though_messages_name_other_graphs():
    first, *others = findings_of(Broken())
    assert first.raised_in == "test_causes.py of the backend"
    assert {each.cause for each in others} == {first.cause}


def test_an_executable_that_returns_nothing_is_not_called_a_fault_of_mlbench():
    with pytest.raises(PluginError) as caught:
        CountedExecutable(lambda inputs: None, "image")({})
    assert str(caught.value).startswith("the executable of graph image returned a NoneType, expected a mapping.")
    assert raised_in(caught.value, Exporting()) == ""


@pytest.mark.usefixtures("failing_export")
def test_only_the_first_check_of_a_cause_is_told_in_full(capsys):
    teller = _Teller()
    for finding in findings_of(Exporting()):
        teller.tell(finding)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("FAILED") for line in lines) == 3
    assert sum("no decomposition" in line for line in lines) == 1
    assert sum(line.endswith("Same cause as equals_the_module.") for line in lines) == 2


def test_demands_that_are_broken_in_different_words_are_different_causes():
    findings = findings_of(Wrong())
    assert all(not each.passed for each in findings)
    reasons = {each.reason for each in findings}
    assert len({each.cause for each in findings}) == len(reasons)


def test_a_check_that_passed_shares_no_cause():
    passed = Finding(check="one", demand="", seconds=0, reason="", hint="")
    assert list(_shared_causes([passed, passed])) == []


class Unable(Exporting):
    """Has a runtime that explains itself in many lines, of which the message has one."""

    def __init__(self, hint):
        self.hint = hint

    def compile(self, graph, precision):
        try:
            raise RuntimeError("no operator Foo\nStack backtrace:\n 0: _start")
        except RuntimeError as error:
            raise GraphError("cannot compile: 0: _start.", hint=self.hint) from error


@pytest.mark.parametrize(
    ("hint", "told"),
    [("", "The log has the full error."), ("Choose fp32.", "Choose fp32.")],
)
def test_all_that_a_runtime_said_is_in_the_log_though_the_message_has_one_line_of_it(capsys, hint, told):
    found, *_ = findings_of(Unable(hint))
    assert (found.reason, found.hint) == ("cannot compile: 0: _start.", told)
    assert "no operator Foo\nStack backtrace:" in capsys.readouterr().err


def test_an_error_with_nothing_behind_it_sends_nobody_to_the_log(capsys):
    def demands(subject):
        raise ConformanceError("output 'logits' is float64, expected float32", hint="")

    (found,) = findings_of(Exporting(), [demands])
    assert (found.hint, capsys.readouterr().err) == ("", "")
