"""What a user reads while runs go on; on a clock that only the tests move."""

import pytest

from mlbench.records.expected_cost import Basis, ExpectedTime
from mlbench.reports.bars import BAR_WIDTH
from mlbench.reports.progress import RunPlace, RunProgress
from mlbench.wire.progress import ProgressMessage

COUNTS = {"elapsed_s", "issued", "answered"}
NOTHING = ExpectedTime(seconds=0, basis=Basis.SAME)


def place(number=1, of=1, this=(100, Basis.SAME), others=(0, Basis.SAME)):
    times = [ExpectedTime(seconds=seconds, basis=basis) for seconds, basis in (this, others)]
    return RunPlace(number=number, of=of, this=times[0], others=times[1])


@pytest.fixture
def run():
    """Begin a run 200 s after the first of them."""
    return lambda **where: RunProgress("bert pytorch Server", place(**where), began_s=200, first_began_s=0)


def message(stage="performance", **facts):
    """Return a message about a test of 60 s or more that answers five samples a second."""
    values = {"elapsed_s": 10.0, "issued": 50, "answered": 50, "least_s": 60.0, "least_samples": 40, **facts}
    counts, demand = ({name: values[name] for name in names} for names in (COUNTS, values.keys() - COUNTS))
    return ProgressMessage(stage=stage, facts={"counts": counts, "demand": demand})


def test_the_place_in_the_whole_counts_the_rest_of_this_run_and_all_after_it(run):
    eleventh = run(number=11, of=50, others=(740, Basis.SAME))
    assert eleventh.line(200).startswith("run 11 of 50, about 14 min left: bert pytorch Server")
    assert eleventh.line(280).startswith("run 11 of 50, about 13 min left")  # 20 s and 740 s


@pytest.mark.parametrize(
    ("basis", "said"), [(Basis.SAME, "about"), (Basis.SIMILAR, "roughly"), (Basis.NOTHING, "more than")]
)
def test_the_word_before_the_time_says_how_well_it_is_known(run, basis, said):
    assert run(this=(120, basis)).line(200).startswith(f"{said} 2 min left: ")


def test_a_run_that_lasts_longer_than_earlier_ones_is_not_said_to_be_over(run):
    late = run(number=1, of=2, others=(80, Basis.SAME))
    assert late.line(310).startswith("run 1 of 2, more than 80 s left")
    assert "left" not in run().line(310).partition(": ")[0]


def test_a_test_that_takes_longer_than_earlier_runs_did_is_counted(run):
    slow = run(this=(20, Basis.SAME))
    slow.on_progress(message(least_samples=650), 215)  # 600 more at five a second
    assert slow.line(215).startswith("about 2 min left: ")


def test_the_time_left_of_a_stage_goes_down_between_messages_and_never_says_nothing_for_long(run):
    progress = run()
    progress.on_progress(message(), 210)
    stage = [progress.line(now_s).partition("Server: ")[2] for now_s in (210, 230, 259.8, 261)]
    assert stage == [
        "performance, about 50 s left, 50 samples",
        "performance, about 30 s left, 50 samples",
        "performance, about 1 s left, 50 samples",
        "performance, about to end, 50 samples",
    ]


def test_before_the_first_answer_the_time_left_is_not_known_and_the_step_of_the_batch_is_shown(run):
    progress = run()
    progress.on_progress(message("accuracy", answered=0, least_s=0.0, least_samples=12, issued=12), 210)
    progress.on_progress(ProgressMessage(stage="accuracy", facts={"done": 9, "of": 20}), 211)
    assert progress.line(211).endswith("accuracy, time left not known yet, 0 of 12 samples, step 9 of 20")
    progress.on_progress(ProgressMessage(stage="score"), 212)
    assert progress.line(212).endswith("Server: score")


def test_a_stage_that_counts_nothing_says_for_how_long_it_has_lasted(run):
    progress = run()
    progress.on_progress(ProgressMessage(stage="compile"), 210)
    assert progress.line(245).endswith("Server: compile, 35 s so far")


def test_the_bar_is_the_share_of_the_time_and_never_goes_back_when_a_run_is_late(run):
    progress = run(number=3, of=4, others=(100, Basis.SAME))
    filled = [progress.lines(now_s)[0].count("#") for now_s in (200, 250, 300, 350, 400)]
    assert filled[:2] == [BAR_WIDTH * 200 // 400, BAR_WIDTH * 250 // 400]
    assert filled == sorted(filled)


def test_no_bar_is_full_before_the_last_run_is_over(run):
    last = run(number=4, of=4)
    assert last.lines(290)[0] == f"run 4 of 4 {'#' * 23}- about 10 s left"
    assert last.lines(299)[0] == "run 4 of 4 5 min so far, about 1 s left"
    assert last.lines(330)[0] == "run 4 of 4 6 min so far, it takes longer than earlier runs"


def test_where_nothing_is_known_the_bar_counts_runs_and_the_time_is_said_to_be_unknown(run):
    progress = run(number=3, of=4, this=(0, Basis.NOTHING), others=(0, Basis.NOTHING))
    first, second = progress.lines(200)
    assert first == f"run 3 of 4 {'#' * 12}{'-' * 12} time left not known yet"
    assert second == "bert pytorch Server: start"


def test_names_from_outside_do_nothing_to_a_terminal():
    progress = RunProgress("evil\x1b[31m\nname", place(), began_s=0, first_began_s=0)
    assert "\x1b" not in progress.line(0) + "".join(progress.lines(0))
