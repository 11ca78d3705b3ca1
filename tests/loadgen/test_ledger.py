import pytest

from mlbench.loadgen.ledger import Ledger


def opened(ledger, *ids):
    """Open samples with these ids, the tenfold of which are their indices; return the ids as they were issued."""
    ledger.open(ids, tuple(10 * id_ for id_ in ids))
    return ids


@pytest.fixture
def ledger():
    return Ledger()


def closed(ledger, *ids):
    found = ledger.close(ids)
    return list(zip(found.ids, found.indices, strict=True))


def test_a_query_answered_whole_is_closed(ledger):
    ids = opened(ledger, 1, 2, 3)
    assert ledger.close(ids).ids is ids
    assert (ledger.issued, ledger.answered(), ledger.faults()) == (3, 3, [])


def test_a_query_answered_in_parts_is_closed_part_by_part(ledger):
    opened(ledger, 1, 2, 3)
    assert closed(ledger, 3, 2) == [(3, 30), (2, 20)]
    assert ledger.answered() == 2
    assert list(ledger.close_all().indices) == [10]


def test_a_batch_may_join_samples_of_several_queries(ledger):
    opened(ledger, 1, 2)
    opened(ledger, 3)
    assert closed(ledger, 2, 3) == [(2, 20), (3, 30)]
    assert list(ledger.close_all().ids) == [1]


def test_an_answer_given_twice_closes_nothing_the_second_time(ledger):
    ids = opened(ledger, 1, 2)
    ledger.close(ids)
    assert closed(ledger, 2) == []
    assert ledger.close(ids).ids == ()


def test_a_sample_twice_in_one_answer_is_closed_once(ledger):
    opened(ledger, 1, 2)
    assert closed(ledger, 1, 2, 2) == [(1, 10), (2, 20)]
    assert ledger.answered() == ledger.issued == 2


def test_an_unrequested_answer_closes_nothing(ledger):
    opened(ledger, 1)
    assert closed(ledger, 7) == []
    assert ledger.answered() == 0


def test_equal_ids_close_what_the_issued_ones_would(ledger):
    ids = opened(ledger, 1, 2)
    assert closed(ledger, *list(ids)) == [(1, 10), (2, 20)]


def test_only_samples_that_are_all_open_have_indices(ledger):
    opened(ledger, 1, 2)
    assert ledger.indices((2, 1)) == (20, 10)
    ledger.close((2,))
    assert ledger.indices((2, 1)) is None


def test_only_the_first_faults_are_named_and_the_others_counted(ledger):
    ledger.fault(range(100), "NaN in the reply")
    faults = ledger.faults()
    assert faults[0] == "sample 0: NaN in the reply"
    assert faults[-1] == "and 80 more"
    assert len(faults) == 21


def test_a_reason_is_one_line_of_characters_to_print(ledger):
    ledger.fault([3], "caf\udce9 \x1b[31mred\nand more")
    ledger.fault_of_test(ValueError("no\x00thing"))
    assert ledger.faults() == ["sample 3: caf\\udce9 \\x1b[31mred", "no\\x00thing"]


def test_samples_of_which_one_is_not_open_stay_as_they_were(ledger):
    opened(ledger, 1, 2, 3)
    closed(ledger, 2)
    assert len(ledger.close_if_open((1, 2))) == 0
    assert len(ledger.close_if_open((3, 3))) == 0
    found = ledger.close_if_open((3, 1))
    assert (found.ids, found.indices) == ((3, 1), (30, 10))
    assert ledger.answered() == 3
