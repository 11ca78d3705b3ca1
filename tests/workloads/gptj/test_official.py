"""GPT-J's official files become what runs read, and no number of them changes."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from mlbench_gptj.official import convert_articles, convert_checkpoint, write_tokenizer
from safetensors.torch import load_file
from tokenizers import Tokenizer

from mlbench.errors import DataError

DATA = Path(__file__).parents[2] / "data/gptj"


def split_tokenizer(folder, source):
    """Write a tokenizer as the official checkpoint has it: vocabulary, merges, added tokens."""
    whole = json.loads(source.read_text())
    vocabulary, merges = whole["model"]["vocab"], whole["model"]["merges"]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    pairs = [each if isinstance(each, str) else " ".join(each) for each in merges]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n")
    added = {each["content"]: each["id"] for each in whole["added_tokens"] if each["content"] not in vocabulary}
    extra = max([*vocabulary.values(), *added.values()]) + 1
    added |= {"<|extratoken_1|>": extra, "[PAD]": extra + 1}
    (folder / "added_tokens.json").write_text(json.dumps(added))
    specials = {"bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>", "lstrip": False}}
    (folder / "special_tokens_map.json").write_text(json.dumps({**specials, "pad_token": "[PAD]"}))
    return extra


@pytest.fixture
def checkpoint(tmp_path):
    """A folder in the official form: three pickled shards with an index, and masks stored as weights."""
    folder = tmp_path / "checkpoint-final"
    folder.mkdir()
    state = load_file(DATA / "tiny_generate/model.safetensors")
    names = sorted(state)
    shards = [f"pytorch_model-0000{number}-of-00003.bin" for number in (1, 2, 3)]
    parts = [{name: state[name] for name in names[number::3]} for number in range(3)]
    parts[0]["transformer.h.0.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    parts[2]["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e9)
    for shard, part in zip(shards, parts, strict=True):
        torch.save(part, folder / shard)
    weight_map = {name: shard for shard, part in zip(shards, parts, strict=True) for name in part}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    shutil.copyfile(DATA / "tiny_generate/config.json", folder / "config.json")
    for name in ("generation_config.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    split_tokenizer(folder, DATA / "prompt_encode/tokenizer.json")
    return folder


def test_every_number_of_a_pickled_checkpoint_stays_what_it_is(checkpoint, tmp_path):
    convert_checkpoint(tmp_path, tmp_path / "out")
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())["weight_map"]
    expected = load_file(DATA / "tiny_generate/model.safetensors")
    assert set(index) == set(expected)
    assert sorted(set(index.values())) == [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    found = {name: load_file(tmp_path / "out" / file)[name] for name, file in index.items()}
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name].view(torch.uint8), tensor.view(torch.uint8))


def test_the_tokenizer_of_the_parts_encodes_as_the_whole_one_does(checkpoint):
    write_tokenizer(checkpoint, checkpoint / "tokenizer.json")
    whole = Tokenizer.from_file(str(DATA / "prompt_encode/tokenizer.json"))
    made = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    assert made.get_vocab_size() == whole.get_vocab_size() + 2
    cases = json.loads((DATA / "prompt_encode/cnn_eval.json").read_text())
    for text in [*(case["input"] for case in cases), "The river rose.<|endoftext|>\n\té☃ 12 cm"]:
        assert made.encode(text).ids == whole.encode(text).ids
        ids = whole.encode(text).ids
        assert made.decode(ids, skip_special_tokens=True) == whole.decode(ids, skip_special_tokens=True)


class Harm:
    """Runs a command where a pickle is trusted."""

    def __reduce__(self):
        return (Path.touch, (Path("/tmp/mlbench-pickle-was-trusted"),))


def test_a_pickle_that_would_run_something_is_refused(checkpoint, tmp_path):
    torch.save({"w": Harm()}, checkpoint / "pytorch_model-00002-of-00003.bin")
    with pytest.raises(DataError, match="weights file cannot be read"):
        convert_checkpoint(tmp_path, tmp_path / "out")
    assert not Path("/tmp/mlbench-pickle-was-trusted").exists()


def test_a_shard_without_a_tensor_of_the_index_is_refused(checkpoint, tmp_path):
    torch.save({}, checkpoint / "pytorch_model-00002-of-00003.bin")
    with pytest.raises(DataError, match=r"lacks .*, which its index lists"):
        convert_checkpoint(tmp_path, tmp_path / "out")


def test_articles_are_written_as_the_official_script_writes_them(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    expected = (DATA / "prompt_encode/cnn_eval.json").read_text()
    rows = json.loads(expected)
    columns = {"article": [row["input"] for row in rows], "highlights": [row["output"] for row in rows]}
    columns["id"] = [str(number) for number in range(len(rows))]
    parquet.write_table(pyarrow.table(columns), tmp_path / "validation.parquet")
    convert_articles(tmp_path, tmp_path / "cnn_eval.json")
    assert json.loads((tmp_path / "cnn_eval.json").read_text()) == rows
    assert (tmp_path / "cnn_eval.json").read_text().startswith('[\n    {\n        "instruction": "Summarize the')
