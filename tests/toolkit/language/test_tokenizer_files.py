import shutil
from pathlib import Path

import pytest

from mlbench import DataError
from mlbench.toolkit.language import read_tokenizer

LLAMA = Path(__file__).parents[2] / "data" / "llama2_70b"


def read(folder, *, sizes=(750,), end="</s>", end_id=2):
    return read_tokenizer(folder, sizes=sizes, end=end, end_id=end_id)


def test_a_tokenizer_reads_and_writes_text():
    tokenizer = read(LLAMA, sizes=(700, 750))
    ids = tokenizer.encode("The river rose.").ids
    assert ids[0] == 1
    assert tokenizer.decode(ids) == "The river rose."


def test_its_own_truncation_and_padding_are_switched_off(tmp_path):
    tokenizer = read(LLAMA)
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    text = "The river rose."
    assert read(tmp_path).encode(text).ids == read(LLAMA).encode(text).ids


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"sizes": (32000,)}, "has 750 tokens, the model's tokenizer 32000"),
        ({"sizes": (50400, 50257)}, "750 tokens, the model's tokenizer 50257 or 50400"),
        ({"end": "<|endoftext|>"}, r"<\|endoftext\|> as token None, the model as 2"),
        ({"end_id": 3}, "has </s> as token 2, the model as 3"),
    ],
)
def test_the_tokenizer_of_other_weights_is_refused_in_one_line(wanted, complaint):
    with pytest.raises(DataError, match=complaint) as caught:
        read(LLAMA, **wanted)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"tokenizer not found: .*tokenizer\.json"):
        read(tmp_path)


def test_a_damaged_file_is_refused(tmp_path):
    shutil.copy(LLAMA / "tokenizer.json", tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text()[:1000])
    with pytest.raises(DataError, match="tokenizer cannot be read"):
        read(tmp_path)
