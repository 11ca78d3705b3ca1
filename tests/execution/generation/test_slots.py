import numpy as np
import pytest

from mlbench.execution.generation.slots import Slots, step_up


def running(taken, *, limit=16, beams=1):
    """Return slots of which the first ``taken`` run, each with as many tokens as its number plus one."""
    slots = Slots(limit, beams)
    for number in range(taken):
        slots.take(f"request {number}")
        slots.positions[number * beams : (number + 1) * beams] = number + 1
    slots.run(list(range(taken)))
    return slots


def test_the_lowest_free_slot_is_given_first():
    slots = running(4)
    assert slots.release([2, 0]) == ["request 2", "request 0"]
    assert [slots.take("new"), slots.take("newer"), slots.take("newest")] == [0, 2, 4]
    assert slots.running.tolist() == [1, 3]
    assert slots.filling == [0, 2, 4]
    assert slots.free == 11


def test_a_released_slot_keeps_no_position():
    slots = running(3, beams=2)
    slots.release([1])
    assert slots.positions[:6].tolist() == [1, 1, 0, 0, 3, 3]


def test_sequences_move_into_holes_when_that_halves_the_rows():
    slots = running(8, beams=2)
    slots.release([0, 2, 3, 5])
    moves = []
    for source, target in slots.moves():
        slots.move(source, target)
        moves.append((source, target))
    assert moves == [(7, 0), (6, 2), (4, 3)]
    assert slots.running.tolist() == [0, 1, 2, 3]
    assert slots.requests[:5] == ["request 7", "request 1", "request 6", "request 4", None]
    assert slots.positions[:10].tolist() == [8, 8, 2, 2, 7, 7, 5, 5, 0, 0]


def test_nothing_moves_for_less():
    slots = running(8)
    slots.release([0, 2, 3])
    assert list(slots.moves()) == []


def test_nothing_moves_into_a_slot_that_reads_its_prompt():
    slots = running(8)
    slots.release([0, 1, 2, 3, 4, 5])
    assert slots.take("reading") == 0
    for source, target in slots.moves():
        slots.move(source, target)
    assert slots.running.tolist() == [1, 2]
    assert slots.filling == [0]


def waiting(taken, *, holes, beams=1):
    """Return slots of which some came free and were taken again, by requests whose prompts nothing is read of."""
    slots = running(taken, beams=beams)
    slots.release(holes)
    for hole in holes:
        slots.take(f"waits in {hole}")
    return slots


def test_a_prompt_that_is_read_now_goes_below_those_that_still_wait():
    slots = waiting(8, holes=[1, 4, 6])
    assert slots.settle([6]) == [1]
    assert [slots.requests[slot] for slot in (1, 4, 6)] == ["waits in 6", "waits in 4", "waits in 1"]
    assert slots.filling == [6, 4, 1]  # still the oldest first
    slots.run([1])
    assert slots.running.tolist() == [0, 1, 2, 3, 5, 7]


def test_several_go_to_the_lowest_and_one_that_is_there_stays():
    slots = waiting(8, holes=[1, 4, 6])
    assert slots.settle([4, 6]) == [4, 1]
    assert slots.settle([4, 1]) == [4, 1]


def test_a_free_slot_below_is_taken():
    slots = waiting(8, holes=[1, 4, 6])
    slots.release([2])
    assert slots.settle([4, 6]) == [1, 2]
    assert [slots.requests[slot] for slot in (1, 2, 4, 6)] == ["waits in 4", "waits in 6", "waits in 1", None]
    assert slots.filling == [4, 1, 2]


def test_a_slot_with_a_part_of_a_prompt_stays_as_it_is():
    slots = waiting(8, holes=[1, 4, 6], beams=2)
    slots.positions[2:4] = 5
    assert slots.settle([6]) == [4]
    assert slots.requests[1] == "waits in 1"
    assert slots.positions[2:4].tolist() == [5, 5]


def test_a_lowered_limit_leaves_no_room_until_enough_have_ended():
    slots = running(4)
    slots.limit = 3
    assert slots.free == 0
    slots.release([3, 1])
    assert slots.free == 1


@pytest.mark.parametrize(
    ("count", "size"),
    [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 6),
        (6, 6),
        (7, 8),
        (9, 12),
        (13, 16),
        (17, 20),
        (33, 40),
        (65, 72),
        (97, 104),
        (129, 144),
    ],
)
def test_sizes_go_up_in_steps(count, size):
    assert step_up(count) == size


def test_the_larger_a_step_the_less_of_it_computes_nothing():
    sizes = np.arange(1, 2000)
    steps = np.array([step_up(int(size)) for size in sizes])
    assert (steps >= sizes).all()
    unused = (steps - sizes) / steps
    assert unused.max() < 1 / 3
    assert unused[sizes > 16].max() <= 1 / 5
    assert unused[sizes > 64].max() <= 1 / 9
