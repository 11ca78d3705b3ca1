import pytest
import torch
from mlbench_dlrm_v2.embedding_tables import EmbeddingTable, JoinedTables, SeparateTables, SplitTable

SIZES = (3, 1, 2)
TABLES = [torch.arange(float(rows * 4)).reshape(rows, 4) * 10**number for number, rows in enumerate((10, 3, 6))]


def indices(rows=7):
    generator = torch.Generator().manual_seed(0)
    parts = [
        torch.randint(len(table), (rows, size), generator=generator, dtype=torch.int32)
        for table, size in zip(TABLES, SIZES, strict=True)
    ]
    return torch.cat(parts, dim=1)


def summed(rows):
    """The sums, row by row and index by index."""
    expected = torch.zeros(len(rows), 3, 4)
    for row, places in enumerate(rows.tolist()):
        for feature, (table, part) in enumerate(zip(TABLES, torch.tensor(places).split(SIZES), strict=True)):
            for index in part:
                expected[row, feature] += table[index]
    return expected.flatten(1)


def split_tables():
    """The first table in blocks of rows, the second in strips of columns, the third in both."""
    first, second, third = TABLES
    return [
        SplitTable([first.split([4, 5, 1])]),
        SplitTable([[second[:, :3]], [second[:, 3:]]]),
        SplitTable([third[:, :2].split([1, 5]), third[:, 2:].split([3, 3])]),
    ]


FORMS = {
    "joined": lambda: JoinedTables(TABLES, SIZES),
    "separate": lambda: SeparateTables([EmbeddingTable(table) for table in TABLES], SIZES),
    "split": lambda: SeparateTables(split_tables(), SIZES),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 7])
def test_every_form_sums_the_same_rows(form, rows):
    torch.testing.assert_close(FORMS[form]()(indices(rows)), summed(indices(rows)))


@pytest.mark.parametrize("form", FORMS)
def test_an_index_that_repeats_counts_as_often_as_it_occurs(form):
    row = torch.tensor([[2, 2, 9, 0, 5, 5]], dtype=torch.int32)
    expected = [*(2 * TABLES[0][2] + TABLES[0][9]), *TABLES[1][0], *(2 * TABLES[2][5])]
    assert FORMS[form]()(row)[0].tolist() == [value.item() for value in expected]


@pytest.mark.parametrize("form", ["joined", "separate"])
def test_the_exported_form_is_the_same_function(form, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    torch.testing.assert_close(FORMS[form]()(indices()), summed(indices()))


def test_a_table_in_blocks_copies_none_of_them():
    blocks = TABLES[0].split([4, 6])
    parameters = list(SplitTable([blocks]).parameters())
    assert [parameter.data_ptr() for parameter in parameters] == [block.data_ptr() for block in blocks]


def test_an_index_beyond_the_last_block_is_an_error():
    with pytest.raises(ValueError):
        SplitTable([TABLES[0].split([4, 6])])(torch.tensor([[10]], dtype=torch.int32))
