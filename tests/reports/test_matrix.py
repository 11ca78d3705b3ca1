"""The table of the README: a cell for each workload on each backend, whether it ran or not."""

import pytest

from mlbench.reports.matrix import matrix


@pytest.fixture
def unsupported(a_run):
    failure = {"kind": "unsupported", "message": "graph x: operator Det.", "stage": "engine", "log_tail": ""}
    return a_run(workload="bert", status="failed", failure=failure, result=None, accuracy=None, verdict=None)


def cells(text):
    """Return the cells of the table by workload and column, and the lines below it."""
    table, _, below = text.partition("\n\n")
    heading, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {(row[0], column): cell for row in rows for column, cell in zip(heading[1:], row[1:], strict=True)}, below


def test_a_cell_counts_the_scenarios_that_pass_and_says_how_the_others_ended(a_run, a_failure):
    verdict = a_run().verdict.model_dump()
    runs = [
        a_run(),
        a_failure.model_copy(update={"scenario": "Server"}),
        a_run(scenario="SingleStream", verdict=verdict | {"is_valid": False}),
        a_run(scenario="MultiStream", verdict=verdict | {"is_accurate": False}),
    ]
    found, _ = cells(matrix(runs))
    assert found == {
        ("resnet50", "pytorch fp32"): (
            "1 of 4 scenarios (Server: crash; SingleStream: INVALID; MultiStream: misses its target)"
        )
    }


def test_a_scenario_that_is_defined_and_did_not_run_is_untested(a_run, unsupported):
    defined = {"resnet50": ["SingleStream", "Server", "Offline"], "bert": ["Offline", "Server"]}
    found, _ = cells(matrix([a_run(), unsupported], workloads=defined))
    assert found["resnet50", "pytorch fp32"] == "1 of 3 scenarios (SingleStream, Server: untested)"
    assert found["bert", "pytorch fp32"] == "unsupported: graph x: operator Det."


def test_a_reason_of_several_lines_does_not_break_the_table(unsupported):
    failure = unsupported.failure.model_copy(update={"message": "graph x:\n  operator | Det\n"})
    found, _ = cells(matrix([unsupported.model_copy(update={"failure": failure})]))
    assert found == {("bert", "pytorch fp32"): r"unsupported: graph x: operator \| Det"}


def test_a_backend_that_cannot_compile_a_graph_is_unsupported_with_its_reason(a_run, unsupported):
    found, _ = cells(matrix([a_run(), unsupported]))
    assert found["bert", "pytorch fp32"] == "unsupported: graph x: operator Det."
    assert found["resnet50", "pytorch fp32"] == "1 of 1 scenarios"


def test_what_did_not_run_is_untested_or_cannot_run_here_with_the_reason_below(a_run):
    backends = {"pytorch": "", "openvino": "", "rocm": "no AMD GPU here"}
    found, below = cells(matrix([a_run()], workloads={"resnet50": ["Offline"], "bert": ["Offline"]}, backends=backends))
    assert found == {
        ("resnet50", "pytorch fp32"): "1 of 1 scenarios",
        ("bert", "pytorch fp32"): "untested",
        ("resnet50", "openvino"): "untested",
        ("bert", "openvino"): "untested",
        ("resnet50", "rocm"): "cannot run here",
        ("bert", "rocm"): "cannot run here",
    }
    assert below == "rocm cannot run here: no AMD GPU here."


def test_a_backend_that_ran_elsewhere_keeps_its_results_and_has_no_second_column(a_run):
    found, below = cells(matrix([a_run(backend="rocm")], backends={"rocm": "no AMD GPU here"}))
    assert found == {("resnet50", "rocm fp32"): "1 of 1 scenarios"}
    assert below == ""
