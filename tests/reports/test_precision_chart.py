"""The chart of speed over loss: which points it has, and when there is none."""

from xml.etree import ElementTree

import pytest

from mlbench.reports.html.drawing import Palette
from mlbench.reports.html.precision_chart import precision_figure
from mlbench.reports.summary import summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")


@pytest.fixture
def drawn(a_run):
    """Return a function that draws runs, each given as precision, transform, speed and score."""

    def drawn(*sides):
        runs = []
        for number, (precision, transform, value, score) in enumerate(sides):
            accuracy = a_run().accuracy.model_dump()
            accuracy["targets"] = [accuracy["targets"][0] | {"value": score}]
            result = a_run().result.model_dump() | {"value": value}
            named = {"precision": precision, "transform": transform, "run_id": f"run-{number}"}
            runs.append(a_run(**named, result=result, accuracy=accuracy))
        summary = summarise({"": runs})
        return precision_figure(summary.combinations, Palette(summary.series))

    return drawn


def test_each_precision_and_transform_is_a_point_and_the_untouched_model_the_origin(drawn):
    """150 of 100 samples/s are 1.5 times as fast, and a score of 89.1 has lost 1 % of 90."""
    figure = drawn(("fp32", "", 100.0, 90.0), ("int8", "", 150.0, 89.1), ("fp32", "sparse:2:4", 80.0, 72.0))
    rows = {row[0].text: (row[1].text, row[2].text) for row in figure.numbers.rows}
    assert sorted(rows.values()) == [("0.80", "20.00 %"), ("1.00", "0.00 %"), ("1.50", "1.00 %")]
    root = ElementTree.fromstring(figure.svg)
    labels = [each.get("aria-label") or "" for each in root.iter() if each.get("role") == "graphics-symbol"]
    assert sum("times as fast" in label for label in labels) == 3
    assert any("int8: 1.50 times as fast, loss of 1.00 % in" in label for label in labels)


@pytest.mark.parametrize(
    "sides",
    [
        [("fp32", "", 100.0, 90.0)],
        [("bf16", "", 100.0, 90.0), ("int8", "", 150.0, 89.1)],
        [],
    ],
)
def test_without_an_untouched_model_and_another_there_is_none(drawn, sides):
    assert drawn(*sides) is None
