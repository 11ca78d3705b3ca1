"""BERT from SQuAD's JSON, a vocabulary and a pickled state dict that holds more than the network needs."""

import io
from pathlib import Path

import mlbench_bert
import pytest
import torch
from mlbench_bert.mini_profile import MiniProfile
from mlbench_bert.workload import Bert
from safetensors.torch import load_file
from small_sets import SmallSet, md5

MINI = Path(mlbench_bert.__file__).parent / "mini"


def official_checkpoint(state):
    """Return a state dict as transformers wrote it: with a pooler and with position ids, which no network here has."""
    width = state["qa_outputs.weight"].shape[1]
    extra = {
        "bert.embeddings.position_ids": torch.arange(512)[None],
        "bert.pooler.dense.weight": torch.zeros(width, width),
        "bert.pooler.dense.bias": torch.zeros(width),
    }
    file = io.BytesIO()
    torch.save(extra | {name: tensor.float() for name, tensor in state.items()}, file)
    return file.getvalue()


def make_small_set(folder):
    questions, vocabulary = ((MINI / name).read_bytes() for name in ("dev.json", "vocab.txt"))
    weights = official_checkpoint(load_file(MINI / "weights.safetensors"))
    return SmallSet(
        workload=Bert(),
        contents={
            "model/pytorch": weights,
            "model/vocab": vocabulary,
            "data/squad-dev-1.1": questions,
            "calibration/features": b"3\n15\n160\n",
        },
        smaller=f"""
windows_in_data = 576
data_md5 = "{md5(questions)}"
vocabulary_md5 = "{md5(vocabulary)}"
torch_md5 = "{md5(weights)}"
[windows]
tokens = 192
stride = 64
[architecture]
vocabulary = 1700
hidden = 128
layers = 3
heads = 4
feed_forward = 512
positions = 192
[reference]
F1 = {MiniProfile.shipped().reference["F1"]}
""",
    )


@pytest.mark.thorough("official forms")
@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
def test_questions_are_answered_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full, backend):
    record, _ = run_full("bert", backend)
    assert record.samples["dataset"] == 576
    assert record.accuracy.scores["F1"] == pytest.approx(90.308, abs=0.001)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "hidden 128, not 1024" in said.measured
    assert not record.verdict.is_conformant
