"""Weights, tokenizers and models, as users give them."""

import io
import json
import warnings
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from mlbench_retinanet.checkpoints import torchscript_state, training_state  # noqa: E402 - torch takes seconds
from mlbench_stable_diffusion_xl.checkpoint import Checkpoint  # noqa: E402
from mlbench_stable_diffusion_xl.dataset import read_latents  # noqa: E402
from mlbench_stable_diffusion_xl.fid import read_statistics  # noqa: E402
from mlbench_unet3d.graphs import CHECKPOINT_KEY, official_state  # noqa: E402
from safetensors.torch import save  # noqa: E402

from mlbench import DataError  # noqa: E402
from mlbench.toolkit import file_sha256, load_weights  # noqa: E402
from mlbench.toolkit.language import (  # noqa: E402
    LanguageNetwork,
    check_config,
    read_tokenizer,
    weight_files,
    weights_fingerprint,
)

DATA = Path(__file__).parents[1] / "data"
STATE = {"a": torch.zeros(2, 3), "b": torch.ones(4, dtype=torch.float16)}


def saved(value):
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


class Two(torch.nn.Module):
    """A network of the parts that a RetinaNet has."""

    def __init__(self):
        super().__init__()
        self.backbone, self.head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.backbone(x))


def torchscript():
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would have other forms written, and the official file is of this one
        torch.jit.save(torch.jit.trace(Two(), torch.zeros(1, 2)), content)
    return content.getvalue()


def test_safetensors(fuzz):
    fuzz.bytes(load_weights, save(STATE), "model.safetensors", share=2)
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
    for odd in (header, header.replace("[2]", "[-1]"), header.replace("[2]", f"[{10**30}]"), "[" * 10_000, "{}", ""):
        content = len(odd).to_bytes(8, "little") + odd.encode() + bytes(8)
        (fuzz.folder / "model.safetensors").write_bytes(content)
        fuzz.judge(load_weights, fuzz.folder / "model.safetensors")
    fuzz.paths(load_weights)


def test_headers_of_safetensors(fuzz):
    def read(file):
        header = file.read_bytes()
        target = file.with_suffix(".safetensors")
        target.write_bytes(len(header).to_bytes(8, "little") + header + bytes(32))
        load_weights(target)

    fuzz.json(read, {"a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]}, "__metadata__": {"format": "pt"}})


def test_checkpoints_of_torch(fuzz, little_memory):
    fuzz.bytes(load_weights, saved(STATE), "model.pth", share=2)


def test_checkpoints_of_3d_unet(fuzz, little_memory):
    """Of the TorchScript one only the file with the official checksum is opened."""
    fuzz.bytes(lambda file: official_state(file, md5=""), saved({CHECKPOINT_KEY: STATE}), "model.pth")


def test_checkpoints_of_retinanet(fuzz, little_memory):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("model.pth", saved({"model": STATE}))
    fuzz.bytes(lambda file: training_state(file, md5=""), inner.getvalue(), "model.zip")


def test_torchscript_of_retinanet(fuzz, little_memory):
    fuzz.bytes(lambda file: torchscript_state(file, md5=""), torchscript(), "model.pt")


def test_latents(fuzz, little_memory):
    content = saved(torch.zeros(1, 4, 2, 2))
    fuzz.bytes(lambda file: read_latents(file, (4, 2, 2)), content, "latents.pt")
    numpy = io.BytesIO()
    pytest.importorskip("numpy").save(numpy, torch.zeros(1, 4, 2, 2).numpy())
    fuzz.bytes(lambda file: read_latents(file, (4, 2, 2)), numpy.getvalue(), "latents.npy", share=2)
    fuzz.paths(lambda file: read_latents(file, (4, 2, 2)))


def test_an_archive_under_the_name_of_latents_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "latents.npy", "w") as archive:
        archive.writestr("a.npy", b"")
    with pytest.raises(DataError, match="latents cannot be read"):
        read_latents(tmp_path / "latents.npy", (4, 2, 2))


def test_statistics(fuzz, little_memory):
    numpy = pytest.importorskip("numpy")
    content = io.BytesIO()
    numpy.savez(content, mu=numpy.zeros(3), sigma=numpy.eye(3))
    fuzz.bytes(read_statistics, content.getvalue(), "val2014.npz", share=2)
    fuzz.paths(read_statistics)


# Hugging Face folders


def test_tokenizers(fuzz):
    valid = json.loads((DATA / "llama2_70b" / "tokenizer.json").read_text())

    def read(file):
        read_tokenizer(file.parent, sizes=(750,), end="</s>", end_id=2).encode("The river rose.")

    fuzz.json(read, valid, "tokenizer.json", share=2)


@pytest.fixture
def folder(tmp_path):
    """A folder with weights that are only numbers."""
    (tmp_path / "model.safetensors").write_bytes(save(STATE))
    return tmp_path


def test_descriptions_of_models(fuzz, folder):
    valid = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    valid |= {"num_key_value_heads": 2, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}

    def read(file):
        check_config(file.parent, {"hidden_size": {8}, "rope_theta": (1e6,)})
        weights_fingerprint(file.parent)

    fuzz.json(read, valid, "config.json")


def test_models_of_odd_descriptions(fuzz, folder):
    """The model is not built, and its folder read as far as that."""
    network = LanguageNetwork(
        kind="LlamaForCausalLM",
        model_type="llama",
        layers="num_hidden_layers",
        heads="num_attention_heads",
        cache_heads="num_key_value_heads",
        width="hidden_size",
    )
    valid = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    valid |= {"num_key_value_heads": 2, "vocab_size": 16, "intermediate_size": 8}

    def read(file):
        network.cache_shape(file.parent)

    fuzz.json(read, valid, "config.json")


def test_indexes_of_weights(fuzz, tmp_path):
    (tmp_path / "model-1.safetensors").write_bytes(save(STATE))
    valid = {"metadata": {"total_size": 40}, "weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors"}}
    fuzz.json(lambda file: weight_files(file.parent), valid, "model.safetensors.index.json")


PIPELINE = {"_class_name": "StableDiffusionXLPipeline", "_diffusers_version": "0.29"}
SCHEDULER = {
    "_class_name": "EulerDiscreteScheduler",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "prediction_type": "epsilon",
    "timestep_spacing": "leading",
    "steps_offset": 1,
}


@pytest.fixture
def pipeline(tmp_path):
    """The folder of a pipeline, as far as descriptions go."""
    for part in ("text_encoder", "text_encoder_2", "unet", "vae", "tokenizer", "tokenizer_2", "scheduler"):
        (tmp_path / part).mkdir()
    (tmp_path / "model_index.json").write_text(json.dumps(PIPELINE))
    (tmp_path / "scheduler" / "scheduler_config.json").write_text(json.dumps(SCHEDULER))
    return tmp_path


def test_pipelines(fuzz, pipeline):
    fuzz.json(lambda file: Checkpoint.opened(file.parent), PIPELINE, "model_index.json")


def test_schedulers(fuzz, pipeline):
    fuzz.json(lambda file: Checkpoint.opened(pipeline).schedule(4), SCHEDULER, "scheduler/scheduler_config.json")


def test_a_checksum_is_of_the_file(folder):
    assert len(file_sha256(folder / "model.safetensors")) == 64
