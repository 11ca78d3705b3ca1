import argparse
import hashlib
import io
import pickle
import warnings
import zipfile
from collections import OrderedDict

import pytest
import torch
from mlbench_retinanet.checkpoints import torchscript_state, training_state
from mlbench_retinanet.graphs import build_network

from mlbench import DataError

PICKLE = "archive/data.pkl"


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def state(tiny):
    """Weights of a small network, all of them different."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.rand(tensor.shape, generator=generator) for name, tensor in build_network(tiny).state_dict().items()
    }


def is_loaded(tiny, found, state):
    """Return whether a network that loads what was found has these weights."""
    network = build_network(tiny)
    network.load_state_dict(dict(found))
    return all(torch.equal(tensor, state[name]) for name, tensor in network.state_dict().items())


@pytest.fixture(scope="module")
def archive(tiny, state, tmp_path_factory):
    """A network as a TorchScript archive."""
    network = build_network(tiny).eval()
    network.load_state_dict(dict(state))
    path = tmp_path_factory.mktemp("weights") / "resnext50_32x4d_fpn.pth"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        torch.jit.save(torch.jit.trace(network, torch.zeros(1, 3, 64, 64), check_trace=False), path)
    return path


@pytest.mark.slow
def test_weights_are_read_from_a_torchscript_archive(tiny, state, archive):
    assert is_loaded(tiny, torchscript_state(archive, md5=md5(archive)), state)


@pytest.mark.thorough("workloads")
def test_weights_are_read_from_torchvisions_whole_retinanet_as_torchscript(tiny, state, tmp_path):
    from torchvision.models.detection import RetinaNet

    network = build_network(tiny)
    network.load_state_dict(dict(state))
    whole = RetinaNet(network.backbone, tiny.classes, head=network.head).eval()
    path = tmp_path / "resnext50_32x4d_fpn.pth"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(whole).save(path)
    assert is_loaded(tiny, torchscript_state(path, md5=md5(path)), state)


@pytest.mark.slow
def test_the_code_of_an_archive_is_not_opened(tiny, state, archive, tmp_path):
    path = tmp_path / "resnext50_32x4d_fpn.pth"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(path, "w") as copy:
        code = [name for name in source.namelist() if "/code/" in name]
        for name in source.namelist():
            copy.writestr(name, b"no code" if name in code else source.read(name))
    assert code
    assert is_loaded(tiny, torchscript_state(path, md5=md5(path)), state)


class Touch:
    """Unpickled the usual way it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_an_archive_that_asks_for_anything_else_than_tensors_is_refused(tmp_path):
    path = tmp_path / "resnext50_32x4d_fpn.pth"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(PICKLE, pickle.dumps({"backbone": Touch(tmp_path / "made")}, protocol=2))
    with pytest.raises(DataError, match=r"not a TorchScript archive: .*asks for (io|_io)\.open"):
        torchscript_state(path, md5=md5(path))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [{PICKLE: pickle.dumps(7)}, {"a": b""}, None], ids=["a number", "a zip", "no zip"])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    if content:
        with zipfile.ZipFile(path, "w") as file:
            for name, data in content.items():
                file.writestr(name, data)
    for read in (torchscript_state, training_state):
        with pytest.raises(
            DataError, match=r"weights file is not a (TorchScript archive|checkpoint of this model): "
        ) as told:
            read(path, md5=md5(path))
        assert "\n" not in str(told.value)


def checkpoint(path, content):
    """A checkpoint of the training code: torch's format within a zip archive."""
    stored = io.BytesIO()
    torch.save(content, stored)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("retinanet_model_10.pth", stored.getvalue())
    return path


def test_weights_are_read_from_a_checkpoint_of_the_training_code(tiny, state, tmp_path):
    norms = {name for name, _ in build_network(tiny).named_buffers()}
    four_axes = {name: tensor.view(1, -1, 1, 1) if name in norms else tensor for name, tensor in state.items()}
    arguments = argparse.Namespace(lr=0.0001, output_dir="/results", data_layout="channels_last")
    content = {"model": OrderedDict(four_axes), "optimizer": {"state": {}}, "args": arguments, "epoch": 10}
    path = checkpoint(tmp_path / "retinanet_model_10.zip", content)
    assert is_loaded(tiny, training_state(path, md5=md5(path)), state)


def test_a_checkpoint_that_would_run_something_is_refused(tmp_path):
    path = checkpoint(tmp_path / "retinanet_model_10.zip", {"model": {}, "args": Touch(tmp_path / "made")})
    with pytest.raises(DataError, match="weights file is not a checkpoint of this model"):
        training_state(path, md5=md5(path))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("read", [torchscript_state, training_state])
def test_a_file_that_is_missing_or_another_is_named_before_anything_is_read(tmp_path, read):
    other = tmp_path / "resnext50_32x4d_fpn.pth"
    other.write_bytes(b"other weights")
    with pytest.raises(DataError, match=r"weights file not found: .*absent\.pth"):
        read(tmp_path / "absent.pth", md5="a55f6bec3464f605ce8d686da8ac1533")
    with pytest.raises(DataError, match=r"corrupt or another version: .*resnext50_32x4d_fpn\.pth"):
        read(other, md5="a55f6bec3464f605ce8d686da8ac1533")
