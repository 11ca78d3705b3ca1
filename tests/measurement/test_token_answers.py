"""What two logs say of answers that are tokens."""

import struct

from mlbench import LoggedReply
from mlbench.measurement.token_answers import found_in
from mlbench.rules.token_compliance import TokenForm

FORM = TokenForm(end_tokens=(2,), most=50)


def reply(index, *tokens, count=None):
    data = struct.pack(f"<{len(tokens)}q", *tokens)
    return LoggedReply(index=index, data=data, token_data=data[:8], token_count=count or len(tokens))


def test_answers_of_both_tests_are_looked_at_and_those_to_the_same_samples_set_side_by_side():
    kept = [reply(3, 5, 6, 2), reply(8, 5, 2), reply(3, 5, 2)]
    reference = [reply(8, 5, 6, 7, 2), reply(3, 5, 6, 2), reply(1, 5, 6), reply(8, 5, 2)]
    found = found_in(kept, reference, FORM, FORM)
    assert found.checked == 7
    assert found.faults == []
    assert found.cut == [1]
    assert sorted(found.lengths) == [(2, 3), (2, 4), (3, 3)], "of several replies to a sample the first counts"


def test_a_fault_names_its_sample():
    found = found_in([reply(3, 5, 6, 2, count=33)], (), FORM, FORM)
    assert found.faults == ["sample 3: token count 33 was reported for an answer of 3 tokens"]
    assert found.lengths == []
