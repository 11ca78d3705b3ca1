from types import SimpleNamespace

import pytest

from mlbench.contracts.engine import Samples
from mlbench.loadgen.ledger import Ledger


def samples(*ids):
    return Samples(list(ids), [i * 10 for i in ids], SimpleNamespace())


@pytest.fixture
def ledger():
    return Ledger()


def test_a_query_answered_whole_is_closed(ledger):
    query = samples(1, 2, 3)
    ledger.open(query)
    assert ledger.close(query) is query
    assert (ledger.issued, ledger.answered(), ledger.faults()) == (3, 3, [])


def test_a_query_answered_in_parts_is_closed_part_by_part(ledger):
    ledger.open(samples(1, 2, 3))
    part = samples(2, 3)
    assert ledger.close(part) is part
    assert ledger.open_samples() == ([1], [10])
    assert ledger.faults() == []


def test_a_batch_may_join_samples_of_several_queries(ledger):
    ledger.open(samples(1, 2))
    ledger.open(samples(3))
    batch = samples(2, 3)
    assert ledger.close(batch) is batch
    assert ledger.open_samples() == ([1], [10])


def test_an_answer_given_twice_is_a_fault_that_names_the_sample(ledger):
    query = samples(1, 2)
    ledger.open(query)
    ledger.close(query)
    assert list(ledger.close(samples(2)).ids) == []
    assert ledger.faults() == ["sample 20: answered twice, or never asked"]


def test_a_sample_twice_in_one_answer_is_closed_once_and_is_a_fault(ledger):
    ledger.open(samples(1, 2))
    assert list(ledger.close(samples(1, 2, 2)).ids) == [1, 2]
    assert ledger.faults() == ["sample 20: answered twice, or never asked"]
    assert ledger.answered() == ledger.issued == 2


def test_an_answer_nobody_asked_for_closes_nothing(ledger):
    ledger.open(samples(1))
    assert list(ledger.close(samples(7)).ids) == []
    assert ledger.open_samples() == ([1], [10])


def test_only_the_first_faults_are_named_and_the_others_counted(ledger):
    ledger.fault(range(100), "NaN in the reply")
    faults = ledger.faults()
    assert faults[0] == "sample 0: NaN in the reply"
    assert faults[-1] == "and 80 more"
    assert len(faults) == 21
