"""Steps are found where they were put, and nowhere in noise."""

import itertools
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from invoking import invoke

from mlbench.comparison.history import histories_of
from mlbench.comparison.steps import spread_of, steps_in
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.history import history_heading, sparkline

FIRST_NIGHT = datetime(2026, 9, 1, 2, tzinfo=UTC)
SPREAD = 0.02


def noisy(levels, seed, spread=SPREAD):
    """Return values around levels: ``{0: 100, 30: 90}`` is 100 until run 30, then 90 until the key None."""
    starts = [start for start in levels if start is not None]
    ends = [*starts[1:], levels[None]]
    means = np.concatenate(
        [np.full(end - start, levels[start], dtype=float) for start, end in zip(starts, ends, strict=True)]
    )
    return list(means * np.random.default_rng(seed).normal(1, spread, len(means)))


def places(values, **more):
    return [index for index, _ in steps_in(values, higher_is_better=True, **more)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [6, 12, 40, 200])
def test_pure_noise_has_no_step(seed, count):
    assert places(noisy({0: 100, None: count}, seed)) == []


@pytest.mark.parametrize("count", [12, 40])
def test_even_without_a_margin_noise_hardly_ever_has_a_step(count):
    alarms = sum(bool(places(noisy({0: 100, None: count}, seed), margin=0)) for seed in range(100))
    assert alarms <= 4  # one is expected of a hundred, at 1 %; five would be a chance of 1 in 300


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_of_a_tenth_is_found_where_it_happened(seed):
    ((index, effect),) = steps_in(noisy({0: 100, 30: 90, None: 60}, seed), higher_is_better=True)
    assert abs(index - 30) <= 1
    assert effect.low < 0.9 < effect.high
    assert effect.ratio == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_several_steps_are_found_each(seed):
    found = places(noisy({0: 100, 25: 85, 60: 100, 80: 120, None: 110}, seed))
    assert len(found) == 3
    assert all(abs(one - other) <= 1 for one, other in zip(found, (25, 60, 80), strict=True))


def test_three_runs_are_enough_for_a_large_step_and_two_are_not():
    values = noisy({0: 100, 20: 80, None: 23}, 0, spread=0.01)
    assert places(values) == [20]
    assert places(values[:22]) == []


def test_a_step_within_the_margin_is_none():
    values = noisy({0: 100, 50: 97, None: 100}, 1, spread=0.005)
    assert places(values) == []
    assert places(values, margin=0.02) == [50]


def test_a_sure_step_stays_though_one_that_was_proposed_beside_it_does_not():
    values = noisy({0: 100, 30: 98, 60: 80, None: 90}, 1, spread=0.005)
    assert places(values, margin=0.01) == [31, 60]
    assert places(values) == [60]


def test_one_bad_night_is_no_step():
    values = noisy({0: 100, None: 40}, 2)
    values[20] = 50
    assert places(values) == []


@pytest.mark.parametrize("values", [[], [100], [100, 50], [100, 100, 50, 50, 50], [100] * 50])
def test_tiny_and_constant_series_have_no_steps(values):
    assert places(values) == []


def test_a_step_between_values_that_repeat_exactly_is_found():
    assert places([100.0] * 5 + [90.0] * 5) == [5]


def test_more_latency_is_slower():
    ((_, effect),) = steps_in(noisy({0: 5e6, 20: 6e6, None: 40}, 3), higher_is_better=False)
    assert effect.ratio == pytest.approx(5 / 6, rel=0.03)


def test_the_spread_is_the_noises_whatever_the_steps():
    assert spread_of(noisy({0: 100, None: 400}, 0)) == pytest.approx(SPREAD, rel=0.2)
    assert spread_of(noisy({0: 100, 200: 50, None: 400}, 0)) == pytest.approx(SPREAD, rel=0.2)


@pytest.fixture
def nights(a_run, environment):
    """Return a run a night with these throughputs; from night ``upgraded`` on with a newer torch."""

    def nights(values, upgraded=None, **changes):
        made = []
        for night, value in enumerate(values):
            version = "2.9.0" if upgraded is None or night < upgraded else "2.10.0"
            made.append(
                a_run(
                    run_id=f"night-{night:03d}",
                    tag=f"night-{night}",
                    created=FIRST_NIGHT + timedelta(days=night),
                    result=a_run().result.model_dump() | {"value": value},
                    environment=environment.model_copy(update={"libraries": {"torch": version}}),
                    **changes,
                )
            )
        return made

    return nights


def test_a_step_says_by_how_much_and_what_else_changed(nights):
    (history,) = histories_of(nights(noisy({0: 100, 15: 80, None: 30}, 4), upgraded=15))
    (step,) = history.steps
    assert history.points[step.index].run_id == "night-015"
    assert step.verdict is SpeedVerdict.SLOWER
    assert list(map(str, step.differences)) == ["torch differs: 2.9.0, then 2.10.0"]
    assert [(level.first, level.last) for level in history.levels] == [(0, 14), (15, 29)]
    assert [level.value for level in history.levels] == pytest.approx([100, 80], rel=0.02)


def test_order_is_that_of_the_nights_not_of_the_list(nights):
    runs = nights([100.0] * 5 + [90.0] * 5)
    (history,) = histories_of(runs[::-1])
    assert [point.value for point in history.points] == [100.0] * 5 + [90.0] * 5


def test_other_hardware_is_another_history(nights, environment):
    other = environment.model_copy(update={"machine": "another"})
    elsewhere = [run.model_copy(update={"environment": other}) for run in nights([50.0] * 8)]
    assert [len(history.points) for history in histories_of([*nights([100.0] * 8), *elsewhere])] == [8, 8]


def test_another_model_is_another_history(nights):
    first, second = (nights([100.0] * 8, fingerprints={"weights": weights}) for weights in ("one", "two"))
    assert [len(history.points) for history in histories_of([*first, *second])] == [8, 8]


def test_repeats_of_a_night_are_one_point(nights):
    hours = [run.model_copy(update={"run_id": f"{run.run_id}-{n}", "created": run.created + timedelta(minutes=n)})
             for run in nights([100.0, 90.0] * 4) for n in range(5)]  # fmt: skip
    (history,) = histories_of(hours)
    assert [point.value for point in history.points] == pytest.approx([100.0, 90.0] * 4)
    assert {point.runs for point in history.points} == {5}
    assert history_heading(history).startswith(
        "resnet50 pytorch Offline fp32: throughput, 40 runs in 8 sessions, 2026-09-01 to 2026-09-08"
    )
    assert history.steps == ()


def in_commits(runs, tags):
    """Return the runs as two repeats of each of so many commits in a session, half an hour apart."""
    made = []
    for run, number in itertools.product(runs, range(2 * tags)):
        changes = {"run_id": f"{run.run_id}-{number}", "tag": f"{run.tag}-{number // 2}"}
        made.append(run.model_copy(update=changes | {"created": run.created + timedelta(minutes=30 * number)}))
    return made


def test_commits_of_one_afternoon_are_points_of_their_own(nights):
    runs = in_commits(nights([100.0]), 3)
    slow = [run.model_copy(update={"result": run.result.model_copy(update={"value": 66.0})}) for run in runs[4:]]
    (history,) = histories_of([*runs[:4], *slow])
    assert [(point.tag, round(point.value, 9), point.runs) for point in history.points] == [
        ("night-0-0", 100.0, 2),
        ("night-0-1", 100.0, 2),
        ("night-0-2", 66.0, 2),
    ]
    assert (history.sessions, history.reason) == (1, "1 session; a step needs 3 on each side")
    assert "6 runs of 3 tags in 1 session" in history_heading(history)


def test_a_step_lies_at_the_commit_that_made_it(nights):
    runs = in_commits(nights(noisy({0: 100, None: 12}, 5, spread=0.005)), 3)
    from_here = next(index for index, run in enumerate(runs) if run.tag == "night-6-1")
    slower = [run.model_copy(update={"result": run.result.model_copy(update={"value": 0.8 * run.result.value})})
              for run in runs[from_here:]]  # fmt: skip
    (history,) = histories_of([*runs[:from_here], *slower])
    (step,) = history.steps
    assert history.points[step.index].tag == "night-6-1"


def test_an_afternoon_of_many_commits_on_a_slow_machine_is_no_step(nights):
    """Six commits of one session are one observation of the machine, however close they lie."""
    (history,) = histories_of(in_commits(nights([100.0, 101.0, 99.0, 100.0, 101.0, 90.0]), 6))
    assert (len(history.points), history.steps) == (36, ())


def test_runs_that_do_not_count_are_no_points(nights, a_failure):
    verdict = {"rules": [], "not_applied": {}, "is_valid": False, "is_accurate": None, "is_conformant": False}
    invalid = nights([10.0], verdict=verdict)
    (history,) = histories_of([*nights([100.0] * 8), *invalid, a_failure])
    assert (len(history.points), history.set_aside, history.steps) == (8, 2, ())


def test_too_few_runs_say_so(nights):
    (history,) = histories_of(nights([100.0, 50.0]))
    assert (history.steps, history.reason) == ((), "2 sessions; a step needs 3 on each side")


def test_a_server_history_at_different_loads_says_why_it_has_no_steps(nights, a_run):
    result = a_run().result.model_dump() | {"latency_ns": {"99.00_percentile_latency": 10**6}}
    server = a_run(scenario="Server", result=result)
    loads = [
        run.model_copy(
            update={
                "scenario": server.scenario,
                "scenario_facts": server.scenario_facts,
                "load": {"target_qps": rate},
                "result": server.result,
            }
        )
        for run, rate in zip(nights([100.0] * 8), [10, 20] * 4, strict=True)
    ]
    (history,) = histories_of(loads)
    assert "latencies at different loads cannot be compared" in history.reason
    assert history.measure == "99th percentile latency"


def test_the_line_of_blocks_shows_the_step(nights):
    (history,) = histories_of(nights([100.0] * 4 + [50.0] * 4))
    assert sparkline(history) == "████│▁▁▁▁"
    (long,) = histories_of(nights([100.0] * 150 + [50.0] * 150))
    assert sparkline(long) == "█" * 50 + "│" + "▁" * 50


# the command


@pytest.fixture
def stored(nights, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    results = tmp_path / "results"
    for run in nights(noisy({0: 100, 15: 80, None: 30}, 4), upgraded=15):
        (results / run.run_id).mkdir(parents=True)
        (results / run.run_id / "record.json").write_text(run.text())
    return results


def history(*arguments, results):
    return invoke("history", *arguments, "--results", results)


def test_the_command_prints_levels_and_what_changed(stored):
    done = history(results=stored)
    assert done.exit_code == 0, done.output
    assert "resnet50 pytorch Offline fp32: throughput, 30 runs, 2026-09-01 to 2026-09-30" in done.stdout
    (row,) = (line for line in done.stdout.splitlines() if "slower" in line)
    assert row.split()[:3] == ["2026-09-16", "02:00", "15"]
    assert "2026-09-16 02:00: torch differs: 2.9.0, then 2.10.0." in done.stdout


def test_json_holds_points_steps_and_levels(stored):
    (found,) = json.loads(history("--json", results=stored).stdout)
    assert len(found["points"]) == 30
    assert found["points"][0]["created"] == "2026-09-01 02:00:00+00:00"
    assert [step["index"] for step in found["steps"]] == [15]
    assert [(level["first"], level["last"]) for level in found["levels"]] == [(0, 14), (15, 29)]


def test_runs_can_be_named_and_filtered(stored):
    (found,) = json.loads(history("night-3", "night-000", "--workload", "resnet50", "--json", results=stored).stdout)
    assert [point["run_id"] for point in found["points"]] == ["night-000", "night-003"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--workload", "bert"], "no matching run has a result"),
        (["nightly"], "no run 'nightly'"),
        (["--margin", "2"], "2.0 is not in the range"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_one_line(stored, arguments, told):
    done = history(*arguments, results=stored)
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1), done.output
    assert told in done.stderr


def test_an_empty_folder_is_refused(tmp_path):
    done = history(results=tmp_path)
    assert (done.exit_code, "no runs in" in done.stderr) == (2, True)


def test_without_ruptures_the_install_line_is_named(stored, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ruptures", None)
    done = history(results=stored)
    assert done.exit_code == 2
    assert done.stderr == "Error: steps in a history need ruptures. pip install 'mlbench-inference[history]'\n"
