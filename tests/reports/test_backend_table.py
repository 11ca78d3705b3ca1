"""The table of backends under their runs: what each takes for the same work."""

import pytest
from rich.console import Console

from mlbench.reports.backend_table import backend_table

ACCURACY = {"score": "difference", "reference": 0.0, "lower": None, "upper": 1e-5, "lower_is_better": True}


@pytest.fixture
def printed(a_run):
    def printed(*changes, width=160):
        table = backend_table([a_run(**change) for change in changes], width)
        if table is None:
            return None
        console = Console(width=width, record=True, file=None, quiet=False)
        with console.capture() as capture:
            console.print(table)
        return capture.get()

    return printed


def test_each_backend_and_precision_has_a_row(printed):
    shown = printed({"backend": "pytorch"}, {"backend": "onnxruntime"}, {"backend": "pytorch", "precision": "bf16"})
    rows = [line for line in shown.splitlines() if "pytorch" in line or "onnxruntime" in line]
    assert [[word for word in row.split() if word in {"pytorch", "onnxruntime", "fp32", "bf16"}] for row in rows] == [
        ["pytorch", "fp32"],
        ["onnxruntime", "fp32"],
        ["pytorch", "bf16"],
    ]
    for heading in ("result", "processor time", "peak memory", "start-up"):
        assert heading in shown


def test_runs_of_several_kinds_or_of_one_backend_have_no_table(printed):
    assert printed({"backend": "pytorch"}, {"backend": "pytorch"}) is None
    assert printed({"backend": "pytorch"}, {"backend": "onnxruntime", "scenario": "Server"}) is None


def test_a_narrow_terminal_keeps_the_last_scores(printed, a_run):
    accuracy = a_run().accuracy.model_dump()
    targets = [{**accuracy["targets"][0], **ACCURACY, "score": name} for name in ("difference", "largest_difference")]
    scores = {"difference": 1e-8, "largest_difference": 2e-7}
    changed = {"accuracy": {**accuracy, "scores": scores, "targets": targets}}
    wide, narrow = (
        printed({"backend": "pytorch", **changed}, {"backend": "onnxruntime", **changed}, width=width)
        for width in (160, 100)
    )
    assert "difference" in wide.splitlines()[1].replace("largest difference", "")
    assert "difference" not in narrow.splitlines()[0].replace("largest difference", "")
    assert "largest difference" in narrow
