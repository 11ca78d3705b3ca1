"""Numbers of a night judged together: whether the machine moved, and which steps it makes by itself."""

import math
from dataclasses import replace

import pytest

from mlbench.comparison import tested as testing
from mlbench.comparison.effect import Effect, MachineSteps, detectable_loss, effect_of_sessions, with_steps
from mlbench.comparison.spread import Source, Spread
from mlbench.comparison.verdicts import Number, SpeedVerdict, decide, judge_together

MARGIN = 0.05
SPREAD = Spread(source=Source.SESSIONS, between=0.01, within=0, repeats=1, freedom=20, count=21)


def number(cell, ratio, **more):
    effect, spread = effect_of_sessions([[0.0]], [[math.log(ratio)]], SPREAD), SPREAD
    if more.pop("steps", False):
        effect = with_steps(effect, MachineSteps(slowest=math.log(0.88), fastest=0))
        spread = replace(SPREAD, returns=more.pop("returns", 1))
    is_result, is_deliberate = more.pop("is_result", True), more.pop("is_deliberate", False)
    tested = testing.Tested(effect=effect, foreseen=effect, spread=spread, is_deliberate=is_deliberate)
    return Number(cell=(cell,), tested=tested, is_result=is_result)


def night(*ratios, **more):
    return [number(f"cell {index}", ratio, **more) for index, ratio in enumerate(ratios)]


def verdicts(numbers):
    return [each.verdict for each in judge_together(numbers, MARGIN)]


def test_one_cell_that_lost_alone_is_slower():
    assert verdicts(night(0.88, 1, 1.01, 0.99)) == [
        SpeedVerdict.SLOWER,
        SpeedVerdict.SAME,
        SpeedVerdict.SAME,
        SpeedVerdict.SAME,
    ]


def test_cells_that_all_lost_are_suspected():
    decisions = judge_together(night(0.88, 0.87, 0.9, 0.88), MARGIN)
    assert {each.verdict for each in decisions} == {SpeedVerdict.SUSPECTED}
    assert (decisions[0].companions.changed, decisions[0].companions.count) == (3, 3)
    assert decisions[0].companions.ratio == pytest.approx(0.88)


def test_a_loss_beside_as_many_changes_either_way_is_suspected():
    assert verdicts(night(0.88, 1.12, 0.89, 1, 1))[0] is SpeedVerdict.SUSPECTED  # two of four
    assert verdicts(night(0.88, 1.12, 1, 1, 1))[0] is SpeedVerdict.SLOWER


def test_too_few_other_cells_and_several_numbers_of_one_tell_nothing():
    assert verdicts(night(0.88, 0.88, 0.88)) == [SpeedVerdict.SLOWER] * 3
    energy = number("cell 1", 0.88)
    assert verdicts([*night(0.88, 0.88, 1), energy])[0] is SpeedVerdict.SLOWER


def test_sides_that_differ_on_purpose_may_all_have_lost():
    assert set(verdicts(night(0.88, 0.87, 0.9, 0.88, is_deliberate=True))) == {SpeedVerdict.SLOWER}


def test_a_loss_that_all_cells_show_in_turns_is_a_loss():
    tested = testing.compare_pairs([math.log(0.88) + wobble for wobble in (0.001, -0.001, 0.002, 0)])
    assert set(verdicts([Number(cell=(f"{n}",), tested=tested) for n in range(5)])) == {SpeedVerdict.SLOWER}


def test_a_step_that_cells_came_back_from_twice_is_allowed_to_the_others():
    steady, known = night(0.88, 1, 1, 1), [number(f"known {n}", 1, steps=True) for n in range(2)]
    assert verdicts([*steady, *known])[0] is SpeedVerdict.CANNOT_TELL
    assert verdicts([*night(0.8, 1, 1, 1), *known])[0] is SpeedVerdict.SLOWER
    assert verdicts([*steady, known[0]])[0] is SpeedVerdict.SLOWER  # a loss that was mended there says nothing here
    assert verdicts([*steady, number("twice", 1, steps=True, returns=2)])[0] is SpeedVerdict.CANNOT_TELL
    tail = number("tail", 0.88, is_result=False)
    assert verdicts([tail, *known, *night(1, 1, 1)])[0] is SpeedVerdict.SLOWER


def test_a_change_counts_from_the_nearest_of_the_machines_speeds():
    steps = MachineSteps(slowest=-0.12, fastest=0.02)
    plain = Effect(ratio=math.exp(-0.15), low=0, high=1, p_value=0, error=0.01, freedom=20)
    held = with_steps(plain, steps)
    beyond = effect_of_sessions([[0.0]], [[-0.03]], SPREAD)
    nearer = with_steps(Effect(ratio=math.exp(-0.03), low=0, high=1, p_value=0, error=0.01, freedom=20), steps)
    assert held.p_value == pytest.approx(2 * 0.00346, abs=0.0002)  # t = 3 of 20 degrees of freedom, from a table
    assert (nearer.p_value, beyond.steps) == (1, None)
    assert decide(held, 0.0, MARGIN) is SpeedVerdict.CANNOT_TELL  # 3 % below the slowest is within the margin
    assert math.log(held.low) == pytest.approx(-0.15 - 0.02 - 2.086 * 0.01, abs=1e-4)
    assert math.log(held.high) == pytest.approx(-0.15 + 0.12 + 2.086 * 0.01, abs=1e-4)


def test_what_is_detectable_lies_as_much_lower_as_the_machine_goes():
    plain = Effect(ratio=1, low=1, high=1, p_value=1, error=0.01, freedom=20)
    held = with_steps(plain, MachineSteps(slowest=-0.1, fastest=0.02))
    one, other = (detectable_loss(each, 8, MARGIN, 0.01) for each in (plain, held))
    assert math.log1p(-other) == pytest.approx(math.log1p(-one) - 0.12)
