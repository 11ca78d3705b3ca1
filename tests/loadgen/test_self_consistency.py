"""Real logs agree with themselves; one in which a figure was edited does not."""

import re
import shutil
from pathlib import Path

import pytest

from mlbench.loadgen.self_consistency import contradictions

DATA = Path(__file__).parents[1] / "data"
DETAIL, SUMMARY = "mlperf_log_detail.txt", "mlperf_log_summary.txt"
TWICE = "offline_answered_twice"
LOGS = sorted({file.name.partition(".")[0] for file in (DATA / "loadgen").glob("*.summary.txt")} - {TWICE})
PUBLISHED = sorted(file.parent for file in (DATA / "submission").rglob(f"performance/run_1/{SUMMARY}"))


@pytest.fixture
def run(tmp_path):
    """Return a function that puts logs into a run folder, the detail log or the summary edited, and judges them."""

    def run(detail, summary, key="", change=lambda number: number, label=""):
        place = tmp_path / "performance"
        place.mkdir()
        text, short = detail.read_text(), summary.read_text()
        edited = re.sub(rf'("{key}", "value": )([\d.e+]+)', lambda m: f"{m[1]}{change(float(m[2])):g}", text)
        edited_short = re.sub(rf"({re.escape(label)} *: )([\d.e+]+)", lambda m: f"{m[1]}{change(float(m[2])):g}", short)
        assert (edited, edited_short) != (text, short) or not (key or label)
        (place / DETAIL).write_text(edited if key else text)
        (place / SUMMARY).write_text(edited_short if label else short)
        return list(contradictions(tmp_path))

    return run


def logs(name):
    return DATA / "loadgen" / f"{name}.detail.txt", DATA / "loadgen" / f"{name}.summary.txt"


def double(number):
    return 2 * number


def halve(number):
    return number / 2


@pytest.mark.parametrize("name", LOGS)
def test_loadgens_own_logs_agree_with_themselves(run, name):
    assert run(*logs(name)) == []


def test_a_log_that_counts_an_answer_twice_contradicts_itself(run):
    """LoadGen's rate counts the 33 answers to 32 samples."""
    assert len(run(*logs(TWICE))) == 1


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: "-".join(folder.parts[-5:-2]))
def test_published_logs_agree_with_themselves(run, folder):
    assert run(folder / DETAIL, folder / SUMMARY) == []


EDITS = {
    "more samples a second in Offline": ("offline", "result_samples_per_second", double),
    "fewer": ("offline", "result_samples_per_second", halve),
    "an earlier end in Offline": ("offline", "result_max_latency_ns", halve),
    "more samples in Offline": ("offline", "generated_samples_per_query", double),
    "more samples a second in Server": ("server_tokens", "result_completed_samples_per_sec", double),
    "more of them sent too": ("server_tokens", "result_(?:completed|scheduled)_samples_per_sec", lambda rate: 3 * rate),
    "half of all times and twice the rate": ("offline", r"result_\w*latency_ns", halve),
    "more tokens a second": ("server_tokens", "result_completed_tokens_per_second", double),
    "half the mean of a query": ("multi_stream", "result_mean_query_latency_ns", halve),
    "twice the queries": ("multi_stream", "result_query_count", lambda count: 4 * count),
    "half of one percentile": ("multi_stream", "result_99.00_percentile_per_query_latency_ns", halve),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_figure_of_the_detail_log_contradicts_others(run, name):
    file, key, change = EDITS[name]
    assert run(*logs(file), key, change) != []


@pytest.mark.parametrize(
    ("name", "label"), [("offline", "Samples per second"), ("multi_stream", "99.00 percentile latency (ns)")]
)
def test_an_edited_summary_contradicts_the_detail_log(run, name, label):
    (line,) = run(*logs(name), label=label, change=double)
    assert line.startswith(f'the logs of the performance test: "{label}: ')


def test_an_accuracy_test_is_not_the_performance_test(tmp_path):
    place = tmp_path / "performance"
    place.mkdir()
    shutil.copyfile(DATA / "loadgen/offline_accuracy.detail.txt", place / DETAIL)
    assert list(contradictions(tmp_path)) == ["the log of the performance test is of AccuracyOnly, not PerformanceOnly"]
