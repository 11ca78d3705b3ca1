"""Weights in TorchScript archives, beside torch's own reader of them."""

import io
import pickle
import warnings
import zipfile

import pytest
import torch
from torch import nn

from mlbench import DataError
from mlbench.toolkit import read_torchscript


class Tied(nn.Module):
    """Holds parts in parts, buffers, one tensor under two names, a view, and what is no tensor."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 4))
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.body[2].weight
        self.register_buffer("turned", torch.arange(6, dtype=torch.float16).reshape(2, 3).t())
        self.register_buffer("mask", torch.tensor([True, False]))
        self.scale = 2.0

    def forward(self, x):
        return self.head(self.body[2](self.body[:2](x).mean((2, 3)))) * self.scale


def quietly(function, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        return function(*arguments, **more)


def saved(path, module):
    quietly(torch.jit.save, module, path)
    return path


@pytest.fixture
def tied():
    torch.manual_seed(0)
    return Tied().eval()


@pytest.mark.parametrize("by", ["trace", "script"])
def test_the_state_is_what_torch_itself_reads(tied, tmp_path, by):
    made = quietly(torch.jit.script, tied.body) if by == "script" else None
    made = made or quietly(torch.jit.trace, tied, torch.zeros(1, 3, 8, 8), check_trace=False)
    path = saved(tmp_path / "model.pt", made)
    wanted, found = quietly(torch.jit.load, path).state_dict(), read_torchscript(path)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_a_module_in_half_precision_is_read_in_it(tied, tmp_path):
    made = quietly(torch.jit.trace, tied.head, torch.zeros(1, 4), check_trace=False).half()
    found = read_torchscript(saved(tmp_path / "half.pt", made))
    assert torch.equal(found["weight"], tied.head.weight.half())


def edited(path, change):
    """Rewrite an archive with its ``data.pkl`` changed."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, change(content) if name.endswith("/data.pkl") else content)
    return path


class Touches:
    """Unpickled by anybody else, it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_what_an_archive_asks_for_beyond_tensors_is_neither_made_nor_run(tied, tmp_path):
    path = saved(tmp_path / "model.pt", quietly(torch.jit.script, tied.head))
    edited(path, lambda _: pickle.dumps(Touches(tmp_path / "touched"), protocol=2))
    with pytest.raises(DataError, match=r"is not a TorchScript archive: .*model\.pt: it asks for"):
        read_torchscript(path)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        pickle.dumps({}),
        lambda: zipped({}),
        lambda: zipped({"a/data.pkl": pickle.dumps([1], protocol=2)}),
    ],
)
def test_what_is_no_archive_is_one_line_with_the_hint(tmp_path, content):
    (tmp_path / "model.pt").write_bytes(content() if callable(content) else content)
    with pytest.raises(DataError, match="is not a TorchScript archive") as refused:
        read_torchscript(tmp_path / "model.pt", hint="Fetch it again.")
    assert refused.value.hint == "Fetch it again."
    assert "\n" not in refused.value.message


def zipped(contents):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return file.getvalue()
