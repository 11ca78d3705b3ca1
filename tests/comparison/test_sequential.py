"""Verdicts that may be asked for after every turn: against scipy's integrals, and on made-up pairs."""

import math
from datetime import timedelta

import numpy as np
import pytest
import scipy

from mlbench.comparison.compare import compare
from mlbench.comparison.effect import effect_of_pairs
from mlbench.comparison.kinds import margins_of
from mlbench.comparison.sequential import (
    Outlook,
    at_any_time,
    compare_pairs_so_far,
    decisive_numbers,
    evidence,
    is_settled,
    least_t,
    measure_pair_noise,
)
from mlbench.comparison.spread import without_odd_runs

ACROSS = ("backend",)


def effect_so_far(differences):
    (usual,) = without_odd_runs([differences])
    return at_any_time(effect_of_pairs(usual))


@pytest.mark.parametrize(("t", "count"), [(0.0, 5), (2.0, 4), (-7.5, 6), (4.0, 30), (15.0, 12)])
def test_the_evidence_is_the_mean_likelihood_ratio_over_normal_differences_of_variance_ten(t, count):
    """Noncentral t against t, as the Bayes factor of Gönen and others (2005) is defined."""

    def weighed(size):
        likelihood = scipy.stats.nct.pdf(t, count - 1, size * math.sqrt(count))
        return likelihood * scipy.stats.norm.pdf(size, scale=math.sqrt(10))

    near = t / math.sqrt(count)
    mean, _ = scipy.integrate.quad(weighed, near - 12, near + 12, points=[near, 0], limit=400)
    assert evidence(t, count) == pytest.approx(math.log(mean / scipy.stats.t.pdf(t, count - 1)), abs=1e-5)


@pytest.mark.parametrize(("count", "chance"), [(4, 0.05), (5, 0.01), (10, 0.01 / 8), (200, 0.05)])
def test_the_least_t_has_just_the_evidence_that_the_chance_takes(count, chance):
    t = least_t(count, chance)
    assert evidence(t, count) == pytest.approx(-math.log(chance))
    assert t > scipy.stats.t.ppf(1 - chance / 2, count - 1)  # a single look needs less


def test_two_pairs_are_never_enough_for_a_verdict():
    assert math.isinf(least_t(2, 0.01))
    assert at_any_time(effect_so_far([0.5, 0.5001])).p_value > 0.01


def test_pairs_that_are_equal_to_the_last_digit_have_no_evidence_and_no_width():
    effect = effect_so_far([0.0] * 5)
    assert (effect.ratio, effect.low, effect.high, effect.p_value) == (1, 1, 1, 1)


@pytest.fixture(scope="module")
def looks():
    """Return the effects after each pair from the third on, of 300 series of 40 pairs without a difference."""
    rng = np.random.default_rng(20261129)
    return [[effect_so_far(series[:count]) for count in range(3, 41)] for series in 0.02 * rng.standard_t(5, (300, 40))]


def test_looking_after_every_turn_is_wrong_no_more_often_than_promised(looks):
    """One in twenty at 5 %; a t test that is repeated is wrong in more than four times as many."""
    ever = np.mean([min(effect.p_value for effect in series) < 0.05 for series in looks])
    single = [[2 * scipy.stats.t.sf(abs(math.log(e.ratio)) / e.error, e.freedom) for e in series] for series in looks]
    assert ever <= 0.05
    assert np.mean([min(series) < 0.05 for series in single]) > 0.2


def test_the_intervals_of_all_looks_together_hold_the_truth_in_95_of_100(looks):
    assert np.mean([all(effect.low <= 1 <= effect.high for effect in series) for series in looks]) >= 0.95


@pytest.fixture
def pairs(a_run):
    """Return interleaved runs, A B B A, at these throughputs."""

    def pairs(base, new):
        made = []
        for number, values in enumerate(zip(base, new, strict=True)):
            runs = []
            for side, value in enumerate(values):
                minutes = 2 * number + (side if number % 2 == 0 else 1 - side)
                run = a_run(
                    run_id=f"{number}-{side}",
                    backend=("one", "other")[side],
                    created=a_run().created + timedelta(minutes=minutes),
                    result=a_run().result.model_dump() | {"value": value},
                )
                runs.append(run)
            made.append(tuple(runs))
        return made

    return pairs


def told(made, margin=0.05):
    (cell,) = compare_pairs_so_far(made, across=ACROSS, margins=margins_of(margin)).cells
    (speed,) = cell.speeds
    return speed, is_settled(decisive_numbers(cell, made))


BASE = [100, 101, 99, 100.5, 99.5, 100, 101, 99]


def test_a_loss_is_slower_as_soon_as_the_evidence_is_enough_and_not_before(pairs):
    """At 4 pairs t is 27.6 (numpy), and 13.8 are needed at 1 %; of three pairs no t is enough."""
    new = [80.5, 80, 80, 81, 80, 80, 80, 80]
    verdicts = [told(pairs(BASE[:count], new[:count]))[0].verdict for count in (3, 4, 5)]
    assert verdicts == ["cannot tell", "slower", "slower"]
    assert told(pairs(BASE[:4], new[:4]))[1]
    assert not told(pairs(BASE[:3], new[:3]))[1]


def test_what_a_single_look_calls_the_same_may_take_more_turns(pairs):
    new = [101, 99, 100, 98, 102, 101, 99.5, 100]
    few, many = pairs(BASE[:4], new[:4]), pairs(BASE, new)
    base, other = ([pair[side] for pair in few] for side in (0, 1))
    assert compare(base, other, across=ACROSS).cells[0].speeds[0].verdict == "same"
    speed, is_done = told(few)
    assert (speed.verdict, is_done) == ("cannot tell", False)
    assert "the interval of 4 turns extends beyond the margin of 5%" in speed.reason
    speed, is_done = told(many)
    assert (speed.verdict, is_done) == ("same", True)
    assert 1 / 1.05 <= speed.effect.low <= 1 <= speed.effect.high <= 1.05


@pytest.mark.parametrize(("turns", "verdict"), [(3, "cannot tell"), (4, "worse")])
def test_memory_that_doubled_is_judged_by_the_same_rule(pairs, turns, verdict):
    """A growth is worse, not faster; a single look at three pairs would have a verdict."""

    def with_memory(run, mib):
        engine = {"kind": "batch", "batch": 32, "samples": 3200}  # one that searched says nothing about memory
        return type(run).model_validate(run.model_dump() | {"peak_memory_bytes": round(mib * 2**20), "engine": engine})

    made = [
        (with_memory(one, 100 + number / 10), with_memory(other, 200 + number / 7))
        for number, (one, other) in enumerate(pairs(BASE[:turns], BASE[:turns]))
    ]
    (cell,) = compare_pairs_so_far(made, across=ACROSS, margins=margins_of(0.05)).cells
    (memory,) = [each for each in cell.resources if each.kind == "memory"]
    assert (memory.verdict, memory.spread.source) == (verdict, "turns")
    assert memory.effect.ratio == pytest.approx(2, rel=0.01)
    base, new = ([pair[side] for pair in made] for side in (0, 1))
    assert [e.verdict for e in compare(base, new, across=ACROSS).cells[0].resources if e.kind == "memory"] == ["worse"]


@pytest.mark.parametrize(
    ("other_load", "noise", "covers", "decides"),
    [
        (0.6, 0.04, "all", "processor time per sample"),
        (0.2, 0.04, "all", "throughput"),
        (0.2, 0.3, "all", "processor time per sample"),
        (0.6, 0.3, "host", "throughput"),
    ],
)
def test_processor_time_decides_where_wall_time_is_the_neighbours_and_no_accelerator_computes(
    pairs, other_load, noise, covers, decides
):
    noisy = [100 * (1 + noise * each) for each in (0, 1.3, -0.7, 0.7, -1, 1, 0.3, -0.3)]
    processor = {
        "unit": "sample",
        "covers": covers,
        "reference": "scrypt",
        "reference_ns": 1,
        "samples": 8,
        "rounds": 9,
    }

    def with_time(run, relative_ns):
        beside = {"processes": other_load, "stolen": 0.0}
        time = processor | {"ns": relative_ns, "relative_ns": relative_ns}
        return type(run).model_validate(run.model_dump() | {"processor_time": time, "other_work": beside})

    made = [
        (with_time(one, 1000 + 5 * number), with_time(other, 1100 + 4 * number))
        for number, (one, other) in enumerate(pairs(noisy, noisy[::-1]))
    ]
    (cell,) = compare_pairs_so_far(made, across=ACROSS, margins=margins_of(0.05)).cells
    (number,) = decisive_numbers(cell, made)
    assert number.measure == decides
    assert is_settled([number]) is (decides != "throughput")
    assert {each.measure for each in decisive_numbers(cell, made, {"throughput"})} == {decides, "throughput"}


@pytest.mark.parametrize(("partner", "verdict"), [("the other", "worse"), ("a stranger", "cannot tell")])
def test_a_pair_that_computed_side_by_side_differs_by_the_ratio_of_that(pairs, partner, verdict):
    """Alone the runs' times go up and down by a third; side by side the new side takes 5 % more in each pair."""
    noisy = [1000, 1400, 800, 1200, 700, 1300]
    counted = {"unit": "sample", "covers": "all", "reference": "scrypt", "reference_ns": 1, "samples": 8, "rounds": 9}

    def with_time(run, relative_ns, together=None):
        time = counted | {"ns": relative_ns, "relative_ns": relative_ns, "side_by_side": together}
        return type(run).model_validate(run.model_dump() | {"processor_time": time})

    def together(other, ratio):
        run_id = other.run_id if partner == "the other" else partner
        return {"run_id": run_id, "own_ns": 1000 * ratio, "other_ns": 1000, "rounds": 40}

    made = []
    for number, (one, other) in enumerate(pairs(BASE[:6], BASE[:6])):
        ratio, alone = 1.05 + number / 1000, (noisy[number], noisy[-number])
        beside = (None, together(one, ratio)) if number % 2 == 0 else (together(other, 1 / ratio), None)
        made.append(tuple(map(with_time, (one, other), alone, beside)))
    (cell,) = compare_pairs_so_far(made, across=ACROSS, margins=margins_of(0.05)).cells
    (time,) = [each for each in cell.resources if each.kind == "processor time"]
    assert (time.verdict, time.spread.source) == (verdict, "turns")
    assert (time.effect.ratio == pytest.approx(1.0525, rel=1e-4)) is (partner == "the other")


def test_two_states_of_a_side_are_never_the_same(pairs):
    values = [100, 200.0, 100.2, 200.3, 100.1, 200.1, 100.3, 200.2, 100, 200]
    speed, is_done = told(pairs(values, [*values[:-2], 100.1, 200.1]))
    assert (speed.verdict, is_done) == ("cannot tell", False)
    assert "bimodal" in speed.reason


def test_runs_that_fail_take_no_part(pairs, a_run):
    made = pairs(BASE[:5], [80] * 5)
    broken = a_run().verdict.model_copy(update={"is_valid": False})
    made[1] = (made[1][0], made[1][1].model_copy(update={"verdict": broken}))
    assert told(made)[0].spread.count == 4


def share_of(noise, change, turns, is_told):
    """Return the share of 300 made-up cells that have a verdict at one of so many turns."""
    rng = np.random.default_rng(20261129)
    cells = math.log1p(change) + noise * rng.standard_normal((300, turns))
    return np.mean([any(is_told(effect_so_far(each[:count])) for count in range(3, turns + 1)) for each in cells])


@pytest.mark.thorough("statistics", but=["0.03"])
@pytest.mark.parametrize("noise", [0.01, 0.03, 0.08])
def test_in_the_turns_that_are_promised_a_loss_is_seen_in_four_of_five_cases(noise):
    outlook = Outlook(noise=noise, tests=1, margin=0.05)
    turns = outlook.turns_to_see(0.1)
    assert outlook.change_seen(turns) <= 0.1 < outlook.change_seen(turns - 1)
    seen = share_of(noise, -0.1, turns, lambda effect: effect.p_value < 0.01 and effect.ratio < 1 / 1.05)
    assert seen >= 0.8


@pytest.mark.thorough("statistics", but=["0.03"])
@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
def test_in_the_turns_that_are_promised_it_is_seen_that_nothing_changed_in_four_of_five_cases(noise):
    turns = Outlook(noise=noise, tests=1, margin=0.05).turns_to_same()
    assert share_of(noise, 0, turns, lambda effect: 1 / 1.05 <= effect.low and effect.high <= 1.05) >= 0.8


def test_what_no_number_of_turns_shows_is_said():
    """Losses below the margin count as the same, and a margin of nothing takes for ever."""
    assert Outlook(noise=0.01, tests=1, margin=0.05).turns_to_see(0.04) is None
    assert Outlook(noise=0.01, tests=1, margin=0.0).turns_to_same() is None
    assert Outlook(noise=0.01, tests=1, margin=0.05).change_seen(2) == 1


def test_earlier_repeats_show_the_noise_of_a_pair(runs):
    """The standard deviation of the logarithms of 98, 100 and 102 is 0.020, of a pair 1.414 times as much."""
    noise = measure_pair_noise([runs([98, 100, 102])])
    assert noise.runs == 3
    assert noise.share == pytest.approx(math.sqrt(2) * np.std(np.log([98, 100, 102]), ddof=1))
    assert measure_pair_noise([runs([98])]) is None
    assert measure_pair_noise([]) is None
