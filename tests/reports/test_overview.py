"""The picture that a report and a site begin with."""

import pytest

from mlbench.records.run_record import SettingRecord
from mlbench.reports.html.overview import MOST_COLUMNS, overview_figure
from mlbench.reports.summary import summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")


@pytest.fixture
def ran(a_run):
    """Return an Offline run with this throughput."""

    def ran(backend, samples_per_s, **changes):
        result = a_run().result.model_dump() | {"value": samples_per_s}
        return a_run(run_id=f"{backend}-{samples_per_s}", backend=backend, result=result, **changes)

    return ran


def numbers(*runs):
    figure = overview_figure(summarise({"": runs}))
    return [[cell.text for cell in row] for row in figure.numbers.rows]


def test_each_backend_is_a_share_of_the_fastest_of_its_row(ran):
    runs = [ran("pytorch", 100.0), ran("acme", 150.0), ran("other", 1.0)]
    assert numbers(*runs) == [["resnet50 Offline", "0.67", "1.00", "<0.01"]]
    assert numbers(*runs, ran("pytorch", 80.0, workload="bert"))[0] == ["bert Offline", "1.00", "-", "-"]


def test_what_does_not_count_is_named_and_no_measure_of_others(ran, a_run):
    verdict = a_run().verdict.model_dump() | {"is_accurate": False}
    runs = [ran("pytorch", 100.0), ran("null", 900000.0, verdict=verdict)]
    assert numbers(*runs) == [["resnet50 Offline", "1.00", "inaccurate"]]
    assert overview_figure(summarise({"": runs[1:]})) is None


def test_of_latencies_the_shorter_is_the_faster(a_server_run):
    runs = [a_server_run(number, 400.0, backend=name) for number, name in enumerate(("pytorch", "acme"))]
    (row,) = numbers(*runs)
    assert sorted(row[1:]) == ["1.00", "1.00"]


def test_of_a_curve_the_highest_rate_that_counts_is_shown(a_server_run, a_late_run):
    runs = [at_rate(a_server_run(number, rate), rate) for number, rate in enumerate((100.0, 400.0, 200.0))]
    (row,) = numbers(*runs, at_rate(a_late_run(), 800.0))
    assert row[1:] == ["400 samples/s"]


def at_rate(run, rate):
    settings = {"load.target_qps": SettingRecord(value=rate, layer="command line")}
    return run.model_copy(update={"load": {**run.load, "target_qps": rate}, "settings": settings})


def test_one_backend_shows_its_results(ran):
    assert numbers(ran("pytorch", 100.0)) == [["resnet50 Offline", "100 samples/s"]]


def test_more_backends_than_fit_are_counted(ran):
    figure = overview_figure(summarise({"": [ran(f"b{number}", 100.0) for number in range(MOST_COLUMNS + 2)]}))
    assert figure.note.endswith("The table of results has 2 more.")
    assert len(figure.numbers.rows[0]) == MOST_COLUMNS + 1
