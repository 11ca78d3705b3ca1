"""A search of settings, on results that are known."""

import itertools
import math
import random

import pytest

from mlbench.tuner.search.settings_search import FINALISTS, REPEATS, Knob, KnobValues, longest_search, search_settings

KNOBS = (
    Knob("execution.workers", (1, 2, 4, 8)),
    Knob("backend.optimization", ("basic", "extended", "all")),
    Knob("backend.spinning", (False, True)),
    Knob("execution.prefill_tokens", (128, 256, 512, 1024)),
)
START = KnobValues(
    {
        "execution.workers": 1,
        "backend.optimization": "basic",
        "backend.spinning": False,
        "execution.prefill_tokens": 512,
    }
)
FACTORS = {
    "execution.workers": {1: 1.0, 2: 1.5, 4: 1.8, 8: 1.2},
    "backend.optimization": {"basic": 1.0, "extended": 0.9, "all": 1.3},
    "backend.spinning": {False: 1.0, True: 0.7},
    "execution.prefill_tokens": {128: 1.3, 256: 1.2, 512: 1.0, 1024: 0.8},
}


def product(settings):
    return 100.0 * product_of(FACTORS, settings)


def product_of(factors, settings):
    return math.prod(factors.get(key, {}).get(value, 1.0) for key, value in settings.items())


def grid():
    return [dict(zip(START, values, strict=True)) for values in itertools.product(*(knob.values for knob in KNOBS))]


def search(score, knobs=KNOBS, start=START):
    trials = []

    def measure(trial):
        trials.append(trial)
        return score(trial)

    return search_settings(knobs, start, measure), trials


def test_the_best_of_the_grid_is_found_in_a_fifth_of_its_trials():
    found, trials = search(lambda trial: product(trial.settings))
    assert found[0].settings == max(grid(), key=product)
    assert sum(not trial.is_full for trial in trials) <= 0.2 * len(grid())


def test_with_noise_of_a_percent_it_is_within_three_percent_of_the_best_of_the_grid():
    best = max(map(product, grid()))
    for seed in range(40):
        noise = random.Random(seed)
        found, _ = search(lambda trial, noise=noise: product(trial.settings) * noise.gauss(1, 0.01))
        assert product(found[0].settings) >= 0.97 * best


def test_no_trial_is_made_twice():
    _, trials = search(lambda trial: product(trial.settings))
    probes = [tuple(trial.settings.values()) for trial in trials if not trial.is_full]
    assert len(probes) == len(set(probes))


def test_the_first_settings_are_measured_in_full_in_turns_with_the_best():
    found, trials = search(lambda trial: product(trial.settings) ** 0.05)
    full = [trial for trial in trials if trial.is_full]
    assert [trial.repeat for trial in full] == [1] * FINALISTS + [2] * FINALISTS
    assert full[0].settings == full[FINALISTS].settings == START
    assert all(len(each.scores) == REPEATS for each in found)


@pytest.mark.parametrize(("second", "finalists"), [(0.99, 3), (0.97, 2)])
def test_others_are_measured_in_full_where_a_short_trial_showed_them_as_good_as_the_best(second, finalists):
    gains = {"backend.spinning": {True: 1.5}, "backend.optimization": {"extended": second, "all": 0.5}}
    found, _ = search(lambda trial: 100.0 * product_of(gains, trial.settings), KNOBS[1:3])
    assert len(found) == finalists


def test_a_value_that_lost_clearly_is_not_tried_again_with_others():
    def tries_of_basic(factor):
        factors = {"backend.optimization": {"basic": factor}, "backend.spinning": {True: 1.5}}
        start = KnobValues({"backend.optimization": "all", "backend.spinning": False})
        _, trials = search(lambda trial: product_of(factors, trial.settings), KNOBS[1:3], start)
        return sum(trial.settings["backend.optimization"] == "basic" and not trial.is_full for trial in trials)

    assert (tries_of_basic(0.9), tries_of_basic(0.99)) == (1, 2)


def test_settings_that_are_far_behind_in_a_full_run_are_not_measured_again():
    found, trials = search(lambda trial: product(trial.settings))
    assert [trial.repeat for trial in trials if trial.is_full and trial.settings == START] == [1]
    assert [(each.settings == START, len(each.scores)) for each in found] == [(False, 2), (True, 1)]


@pytest.mark.parametrize("second", [30.0, None])
def test_settings_that_were_far_behind_are_measured_again_where_the_better_ones_fall_back(second):
    def score(trial):
        if not trial.is_full:
            return product(trial.settings)
        return 70.0 if trial.settings == START else {1: 100.0, 2: second}[trial.repeat]

    found, trials = search(score)
    assert (found[0].settings, found[0].scores) == (START, (70.0, 70.0))
    full = [trial for trial in trials if trial.is_full]
    assert [trial.repeat for trial in full] == [1, 1, 2, 2]
    assert full[-1].settings == START


def test_where_no_full_run_counts_nothing_is_measured_again():
    found, trials = search(lambda trial: None if trial.is_full else product(trial.settings))
    assert [trial.repeat for trial in trials if trial.is_full] == [1, 1]
    assert {each.scores for each in found} == {()}


def test_where_nothing_is_better_the_first_settings_stay_and_are_not_compared_with_worse_ones():
    found, trials = search(lambda trial: 100.0 if trial.settings == START else 90.0)
    assert [each.settings for each in found] == [START]
    assert sum(trial.is_full for trial in trials) == REPEATS


def test_gains_of_a_percent_each_add_up():
    gains = {"backend.spinning": {True: 1.01}, "backend.optimization": {"extended": 1.01}}
    found, _ = search(lambda trial: 100.0 * product_of(gains, trial.settings))
    assert (found[0].settings["backend.spinning"], found[0].settings["backend.optimization"]) == (True, "extended")


def test_settings_that_a_short_trial_showed_a_little_worse_may_win_in_full():
    def score(trial):
        is_better = trial.settings == START.changed("backend.spinning", True)
        return (105.0 if trial.is_full else 98.0) if is_better else (100.0 if trial.settings == START else 80.0)

    found, _ = search(score)
    assert found[0].settings == START.changed("backend.spinning", True)
    assert len(found) == 2


def test_what_only_a_short_trial_shows_does_not_win():
    def score(trial):
        is_first = trial.settings == START
        return (101.0 if is_first else 100.0) if trial.is_full else (100.0 if is_first else 150.0)

    found, _ = search(score)
    assert found[0].settings == START
    assert len(found) == FINALISTS


def test_settings_that_an_engine_refuses_are_passed_over():
    found, _ = search(lambda trial: None if trial.settings["execution.workers"] > 1 else product(trial.settings))
    assert found[0].settings["execution.workers"] == 1
    assert found[0].settings["backend.optimization"] == "all"


def test_settings_whose_full_run_does_not_count_do_not_win():
    def score(trial):
        is_wrong = trial.is_full and trial.settings["backend.optimization"] == "all" and trial.repeat == 2
        return None if is_wrong else product(trial.settings)

    found, _ = search(score)
    assert found[0].settings["backend.optimization"] == "basic"
    assert found[-1].scores == ()
    assert found[-1].score == 0


def test_numbers_are_left_in_the_direction_that_loses():
    _, trials = search(lambda trial: 1.0 / trial.settings["n"], (Knob("n", (1, 2, 4, 8, 16)),), KnobValues({"n": 4}))
    assert [trial.settings["n"] for trial in trials if not trial.is_full] == [4, 8, 2, 1]


def test_truths_are_no_numbers():
    assert not Knob("backend.spinning", (False, True)).is_ordered
    assert Knob("execution.workers", (1, 2)).is_ordered


@pytest.mark.parametrize(("knobs", "most"), [((), 1), (KNOBS, 10)])
def test_a_search_makes_so_many_short_trials_at_most_in_a_pass(knobs, most):
    assert longest_search(knobs) == most
