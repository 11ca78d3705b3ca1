"""Several sides in one picture, and two backends in a line: bars, ratios and verdicts of stored runs."""

import pytest

from mlbench.comparison.backends import compare_backends
from mlbench.comparison.compare import compare
from mlbench.reports.sides import NewSide, backend_lines, sides_lines

OFFLINE = {"pytorch": "resnet50-pytorch-Offline", "onnxruntime": "resnet50-onnxruntime-Offline"}
"""Two stored runs of one workload: 684.592 and 806.729 samples/s, both with a score of 98.994 %."""


@pytest.fixture
def one_each(stored_run):
    """Return a run of each backend, made a day apart."""
    return [stored_run(name, number) for number, name in enumerate(OFFLINE.values())]


@pytest.fixture
def in_turns(stored_run):
    """Return five runs of each backend, made interleaved, that differ by a percent or less."""
    runs = []
    for number, factor in enumerate((1.0, 1.004, 0.997, 1.002, 0.999)):
        for backend, value in (("pytorch", 684.592), ("onnxruntime", 806.729)):
            runs.append(stored_run(OFFLINE[backend], 2 * number + (backend == "onnxruntime"), value * factor))
    return [
        run.model_copy(update={"created": runs[0].created.replace(minute=number)}) for number, run in enumerate(runs)
    ]


def compared(base, new):
    return compare([base], [new], across=("backend",))


def drawn(base, sides, width=None):
    """Return the lines of a picture of these comparisons with one base."""
    return list(sides_lines(base, [NewSide(name=name, comparison=each) for name, each in sides.items()], width))


def lines_on(*runs):
    return list(backend_lines(list(compare_backends(runs))))


def test_of_rates_the_longer_bar_is_the_larger_and_the_ratio_that_of_the_rates(one_each):
    """684.592 of 806.729 fill 20 of 24 characters; the inverse is 1.178."""
    assert drawn("pytorch", {"onnxruntime": compared(*one_each)}) == [
        "resnet50 Offline fp32, throughput; higher is better",
        f"  pytorch      685 samples/s  {'#' * 20}{'-' * 4}  base",
        f"  onnxruntime  807 samples/s  {'#' * 24}  x 1.178, one run each",
        "  acc: pytorch 98.994, onnxruntime 98.994 (as accurate)",
    ]


def test_of_latencies_the_shorter_bar_is_the_faster_and_half_the_time_is_twice_as_fast(stored_run):
    base = stored_run("resnet50-pytorch-SingleStream")
    new = stored_run("resnet50-pytorch-SingleStream", 1, 52_354_694 / 2, backend="onnxruntime")
    heading, first, second, _ = drawn("pytorch", {"onnxruntime": compared(base, new)})
    assert heading == "resnet50 SingleStream fp32, latency; lower is better"
    assert first == f"  pytorch      52.4 ms  {'#' * 24}  base"
    assert second == f"  onnxruntime  26.2 ms  {'#' * 12}{'-' * 12}  x 2.000, one run each"


def test_a_language_workload_has_a_picture_for_each_of_its_latencies(stored_run):
    base = stored_run("llama2-70b-onnxruntime-Server")
    new = stored_run("llama2-70b-onnxruntime-Server", 1, backend="other")
    lines = drawn("onnxruntime", {"other": compared(base, new)})
    assert [line for line in lines if line.endswith("is better")] == [
        "llama2-70b Server fp32, 99th percentile TTFT; lower is better",
        "llama2-70b Server fp32, 99th percentile TPOT; lower is better",
    ]
    assert [line.split()[1:3] for line in lines if line.endswith("base")] == [["12.4", "ms"], ["4.31", "ms"]]
    assert "  exact_match: onnxruntime 81.641, other 81.641 (as accurate)" in lines


def test_repeats_are_drawn_by_their_geometric_mean(stored_run):
    """Of 400 and 900 it is 600."""
    base = [stored_run(OFFLINE["pytorch"], number, value) for number, value in enumerate((400.0, 900.0))]
    new = [stored_run(OFFLINE["onnxruntime"], 9, 300.0)]
    _, first, second, _ = drawn("pytorch", {"onnxruntime": compare(base, new, across=("backend",))})
    assert first.split()[1:3] == ["600", "samples/s"]
    assert second.split()[-4:] == ["x", "0.500", "cannot", "tell"]


def test_a_side_without_such_runs_is_named_below_and_one_that_the_base_lacks_last(stored_run, one_each):
    pytorch, onnxruntime = one_each
    server = stored_run("resnet50-pytorch-Server", 2)
    elsewhere = stored_run("resnet50-pytorch-Server", 3, backend="elsewhere")
    sides = {
        "both": compare([pytorch, server], [onnxruntime, elsewhere], across=("backend",)),
        "half": compare([pytorch, server], [onnxruntime], across=("backend",)),
        "more": compare([pytorch], [onnxruntime, elsewhere], across=("backend",)),
    }
    lines = drawn("pytorch", sides)
    assert lines.count("  half: no such runs") == 1
    at_server = next(number for number, line in enumerate(lines) if "Server" in line)
    assert lines.index("  half: no such runs") > at_server
    assert lines[-1] == "more: the base has no resnet50 elsewhere Server fp32"


def test_a_score_that_fell_stands_in_the_picture_as_less_accurate(stored_run, one_each):
    pytorch, onnxruntime = one_each
    accuracy = onnxruntime.accuracy.model_dump()
    accuracy["targets"][0] |= {"value": 90.0, "is_met": False}
    worse = onnxruntime.model_copy(
        update={"accuracy": type(onnxruntime.accuracy)(**accuracy | {"scores": {"acc": 90.0}, "is_met": False})}
    )
    lines = drawn("pytorch", {"onnxruntime": compared(pytorch, worse)})
    assert lines[-1] == "  acc: pytorch 98.994, onnxruntime 90.000 (less accurate)"


def test_a_run_without_a_score_has_none_and_is_not_judged(one_each):
    pytorch, onnxruntime = one_each
    verdict = onnxruntime.verdict.model_copy(update={"is_accurate": None})
    unscored = onnxruntime.model_copy(update={"accuracy": None, "verdict": verdict})
    lines = drawn("pytorch", {"onnxruntime": compared(pytorch, unscored)})
    assert lines[-1] == "  acc: pytorch 98.994, onnxruntime none (not judged)"


def test_a_narrow_terminal_has_shorter_bars_of_the_same_shares(one_each):
    for width in (64, 58, 20):
        _, first, second, _ = drawn("pytorch", {"onnxruntime": compared(*one_each)}, width)
        size = second.count("#")
        assert 8 <= size < 24
        assert first.count("#") == round(size * 684.592 / 806.729)
        assert first.count("#") + first.count("-") == size
        assert len(second) <= max(width, len(second.replace("#", "")) + 8)


def test_two_backends_are_a_picture_and_a_sentence_with_what_to_type(one_each):
    """Student's t of 8 degrees of freedom is 2.306 at 95 %: 0.163 on either side of the logarithm of 1.178."""
    heading, first, second, _, answer, hint = lines_on(*one_each)
    assert heading == "resnet50 Offline fp32, throughput; higher is better"
    assert first.split() == ["pytorch", "685", "samples/s", "#" * 20 + "-" * 4, "base"]
    assert second.split() == ["onnxruntime", "807", "samples/s", "#" * 24, "x", "1.178,", "one", "run", "each"]
    assert answer == (
        "onnxruntime was 1.18 times as fast as pytorch in Offline, one run each, which may be chance (1.00 to 1.39 if "
        "sessions differ by 5%, which is assumed, as single runs show no noise)."
    )
    assert hint == "The same command with --until-sure measures them interleaved until it is known."


def test_runs_made_in_turns_get_a_verdict_and_no_hint(in_turns):
    *_, second, _, answer = lines_on(*in_turns)
    assert second.endswith("x 1.178 faster")
    assert answer == (
        "onnxruntime is 1.18 times as fast as pytorch in Offline (1.18 to 1.18, by 5 pairs of interleaved runs)."
    )


def test_the_backend_that_ran_first_is_the_base_and_the_faster_one_is_the_answer(one_each):
    _, first, second, _, answer, _ = lines_on(*reversed(one_each))
    assert first.endswith(" base") and " x 0.849, " in second
    assert answer.startswith("onnxruntime was 1.18 times as fast as pytorch")
    assert "(1.00 to 1.39 if" in answer


def test_each_latency_of_a_language_workload_is_a_picture_with_its_name(stored_run):
    base = stored_run("llama2-70b-onnxruntime-Server")
    lines = lines_on(base, stored_run("llama2-70b-onnxruntime-Server", 1, backend="other"))
    assert [line for line in lines if line.endswith("lower is better")] == [
        "llama2-70b Server fp32, 99th percentile TTFT; lower is better",
        "llama2-70b Server fp32, 99th percentile TPOT; lower is better",
    ]


def test_three_backends_are_a_picture(stored_run, one_each):
    third = stored_run(OFFLINE["pytorch"], 7, 342.296, backend="third")
    heading, *rows, _, second, last, _ = lines_on(*one_each, third)
    assert heading == "resnet50 Offline fp32, throughput; higher is better"
    assert [row.split()[0] for row in rows] == ["pytorch", "onnxruntime", "third"]
    assert [row.count("#") for row in rows] == [20, 24, 10]
    assert second.startswith(
        "onnxruntime was 1.18 times as fast as pytorch in Offline, one run each, which may be chance"
    )
    assert last.startswith("pytorch was 2.00 times as fast as third in Offline, one run each (")


def test_an_invalid_run_is_not_held_against_another_backend(stored_run, a_late_run):
    assert lines_on(stored_run("resnet50-pytorch-Server"), a_late_run(number=1, backend="onnxruntime")) == []


def test_two_bars_of_one_precision_each_name_it_where_they_differ(one_each):
    pytorch, onnxruntime = one_each
    quantised = onnxruntime.model_copy(update={"precision": "int8"})
    lines = drawn("pytorch", {"onnxruntime": compare([pytorch], [quantised], across=("backend", "precision"))})
    assert lines[0] == "resnet50 Offline, throughput; higher is better"
    assert lines[1].startswith("  pytorch fp32      685 samples/s")
    assert lines[2].startswith("  onnxruntime int8  807 samples/s")
