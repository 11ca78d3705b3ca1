import math

import pytest

from mlbench import Prompt
from mlbench.execution.generation.admission import Admission, Costs, Piece, read_together
from mlbench.execution.generation.requests import Request


def requests(*lengths, arrived_ns=0):
    return [Request(i, i, None, None, Prompt(tokens=range(length)), arrived_ns) for i, length in enumerate(lengths)]


def admission(*lengths, slots=8, max_wait_us=0, is_static=False):
    made = Admission(slots=slots, max_wait_us=max_wait_us, is_static=is_static)
    made.costs = Costs(decode_ns=1.0, prefill_ns=1.0, prefill_token_ns=0.1)
    made.add(requests(*lengths))
    return made


def starting(made, *, free, running=0, now_ns=0):
    return made.starting(free=free, running=running, now_ns=now_ns)


def test_those_for_whom_there_is_room_start_at_once():
    assert starting(admission(5, 5, 5), free=8) == 3
    assert starting(admission(5, 5, 5), free=3, running=5) == 3


def test_no_request_starts_without_room_or_requests():
    assert starting(admission(5), free=0, running=8) == 0
    assert starting(admission(), free=8) == 0


def test_when_more_wait_than_there_is_room_for_several_start_together():
    made = admission(*[5] * 20)
    made.usual_answer = 16.0
    assert made.together == 3  # 8 * sqrt(2 / 16) = 2.8
    assert [starting(made, free=free, running=8 - free) for free in range(9)] == [0, 0, 0, 3, 4, 5, 6, 7, 8]


def test_answers_that_are_long_or_calls_that_are_cheap_leave_slots_idle_for_less_time():
    made = admission()
    made.usual_answer = 1000.0
    assert made.together == 1
    made.usual_answer = 4.0
    assert made.together == 4  # half of the slots at most
    made.costs = Costs(decode_ns=100.0, prefill_ns=1.0, prefill_token_ns=0.1)
    assert made.together == 1


def test_the_usual_answer_follows_those_that_end():
    made = admission()
    for _ in range(300):
        made.note_answer(100)
    assert math.isclose(made.usual_answer, 100, rel_tol=0.01)
    made.note_answer(702)
    assert made.mean_answer == 102


def test_the_samples_of_a_query_start_with_the_longest_prompt():
    made = admission(3, 9, 5)
    made.add(requests(7))
    assert [len(made.next()) for _ in range(4)] == [9, 5, 3, 7]


def test_samples_are_not_sorted_across_passes_over_the_dataset():
    made = admission()
    indices, lengths = [2, 0, 1, 1, 2, 0, 0, 1], {0: 3, 1: 9, 2: 5}
    prompts = [Prompt(tokens=range(lengths[index])) for index in indices]
    made.add([Request(id_, index, None, None, prompts[id_], 0) for id_, index in enumerate(indices)])
    in_order = [made.next() for _ in indices]
    assert [request.index for request in in_order] == [1, 2, 0, 1, 2, 0, 1, 0]
    assert [request.id for request in in_order] == [2, 0, 1, 3, 4, 5, 7, 6]


def test_a_request_that_is_put_back_is_the_next_again():
    made = admission(3, 9, 5)
    first = made.next()
    made.put_back(first)
    assert len(made) == 3
    assert [len(made.next()) for _ in range(3)] == [9, 5, 3]


def test_in_hope_of_company_a_request_waits_so_long_and_no_longer():
    made = admission(5, 5, max_wait_us=10)
    assert starting(made, free=8, now_ns=9_999) == 0
    assert made.wait_s(4_000) == 6e-6
    assert starting(made, free=8, now_ns=10_000) == 2
    made.flush()
    assert starting(made, free=8, now_ns=0) == 2
    made.add(requests(5))  # the flush was for those before
    assert starting(made, free=8, now_ns=0) == 0
    made.add(requests(*[5] * 5))  # company enough for all slots
    assert starting(made, free=8, now_ns=0) == 8


def test_there_is_no_end_to_a_wait_for_nothing():
    assert admission().wait_s(0) is None


def test_static_batches_start_when_the_last_one_is_over():
    made = admission(*[5] * 20, is_static=True)
    assert starting(made, free=7, running=1) == 0
    assert starting(made, free=8) == 8


def pieces(*lengths, start=0):
    return [Piece(slot, start, length) for slot, length in enumerate(lengths)]


def together(*given, most_rows=99, most_tokens=1000, length=1000, call_tokens=10):
    costs = Costs(prefill_ns=float(call_tokens), prefill_token_ns=1.0)
    chosen = read_together(given, costs, most_rows=most_rows, most_tokens=most_tokens, length=length)
    return [piece.slot for piece in chosen]


def test_prompts_of_like_length_are_read_together():
    assert together(*pieces(20, 90, 21, 85, 22)) == [0, 2, 4]


def test_the_oldest_is_always_read_and_padding_beyond_the_price_of_a_call_is_not():
    assert together(*pieces(90, 20, 20, 20)) == [0]
    assert together(*pieces(30, 20)) == [0, 1]
    assert together(*pieces(31, 20)) == [0]
    assert together(*pieces(20, 21, 31)) == [0, 1]  # a third would widen two rows


@pytest.mark.parametrize(("limit", "chosen"), [({"most_tokens": 60}, 3), ({"most_rows": 2}, 2), ({}, 5)])
def test_no_call_is_larger_than_allowed(limit, chosen):
    assert len(together(*pieces(20, 20, 20, 20, 20), **limit)) == chosen


def test_padding_never_reaches_beyond_the_cache():
    late = Piece(7, 85, 10)
    assert together(*pieces(15), late, length=100) == [0, 7]
    assert together(*pieces(15), late, length=99) == [0]
