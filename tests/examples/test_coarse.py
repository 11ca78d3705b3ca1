"""A stranger's transform, installed from outside: listed, applied, and judged by the closed division."""

import json
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlbench_coarse"


def test_weights_are_rounded_to_multiples_of_a_step_of_their_row(plugin):
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, -1.4, 0.9], [0.0, 0.0, 0.0]]))
        transform = plugin.Coarse().with_options(plugin.CoarseOptions(bits=3))  # steps of 3 / (2 ** 2 - 1)
        transform.change(layer)
    assert layer.weight.tolist() == [[3.0, -1.0, 1.0], [0.0, 0.0, 0.0]]


def test_the_whole_plugin_is_some_thirty_lines():
    lines = (EXAMPLE / "mlbench_coarse.py").read_text().splitlines()
    assert len([line for line in lines if line and not line.lstrip().startswith(("#", '"""'))]) <= 30


@pytest.mark.thorough("examples")
def test_it_is_listed_passes_the_kit_and_costs_accuracy(mlbench):
    listed = json.loads(mlbench("list", "--json").stdout)["transforms"]
    assert {"name": "coarse:8", "changes_answers": True, "is_closed": True}.items() <= listed[0].items()
    checked = mlbench("check", "coarse:3")
    assert checked.returncode == 0, checked.stdout
    quick = ("--backend", "pytorch", "--scenario", "Offline", "--set", "backend.compile=false", "--json")
    (run,) = json.loads(mlbench("run", "bert", *quick, "--transform", "coarse:2").stdout)
    assert run["changes"] == ["weights of linear layers in 2 bits"]
    assert run["entry"] is None  # the closed division, whose accuracy it misses
    assert run["verdict"]["is_accurate"] is False
