"""Files of settings: suites, tuning, prices, and what a mini profile ships."""

import itertools
import shutil
from dataclasses import dataclass
from importlib.resources import files

import pytest

from mlbench.comparison.cost import read_prices
from mlbench.planning.requests import RunRequest, settings_of
from mlbench.planning.suite import read_suite, requests_of
from mlbench.rules.official import default_round, recognise_round, round_named
from mlbench.rules.round_changes import changes_of
from mlbench.rules.round_facts import facts_of_rules
from mlbench.rules.round_files import rounds_with
from mlbench.toolkit import MiniFolder, read_mini

SUITE = """name = "nightly"
repeats = 3
order = "interleaved"

[[runs]]
workload = ["resnet50", "bert"]
backend = "null"
scenario = "Offline"
precision = ["fp32"]
tier = "smoke"
accuracy = true
repeats = 2
settings = { "execution.batch" = 16, "load.target_qps" = 1e3 }
"""
TUNING = """[[settings]]
when = { workload = "bert", scenario = "Offline" }
execution.batch = 8
execution.batching = "fixed"
load.target_qps = 10.5
load.stage_timeout_s = 60
load.coalesce_queries = true
workload.data = "/data"

[[settings]]
backend.delay_ms = 100
"""
PRICES = """currency = "USD"
source = "list prices"
[per_hour]
small = 36
"large.8" = 360.0
"""
MINI = """reference = 98.5
title = "ten"
[sizes]
layers = 3
widths = [8, 16]
[sha256]
"weights.bin" = "ba7816bf"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    layers: int
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    files: MiniFolder
    reference: float
    title: str
    sizes: Sizes


def test_suite_files(fuzz, plugins, tmp_path):
    def read(file):
        requests_of(read_suite(file), plugins, results=tmp_path / "results")

    fuzz.toml(read, SUITE)
    fuzz.paths(read)


def test_settings_files(fuzz, plugins, monkeypatch):
    def read(file):
        monkeypatch.setenv("MLBENCH_SETTINGS", str(file))
        settings_of(RunRequest(workload="bert", backend="null", scenario="Offline"), plugins).plain()

    fuzz.toml(read, TUNING)


def test_rounds(fuzz, monkeypatch, tmp_path):
    """A round of the user's own: v5.1 cut down to a workload, read and asked for all that commands print of it."""
    numbers = itertools.count()  # a file is read once
    text = files("mlbench.rules").joinpath("rounds", "v5_1.toml").read_text()
    head, llama = text[: text.index("[workloads.")], text.index("[workloads.mixtral")
    text = (head + text[text.index("[workloads.llama2-70b]") : llama]).replace('round = "v5.1"', 'round = "v9.9"')

    def read(file):
        folder = tmp_path / str(next(numbers))
        (folder / "rounds").mkdir(parents=True)
        shutil.copy(file, folder / "rounds" / "v9_9.toml")
        monkeypatch.setenv("MLBENCH_SETTINGS", str(folder / "settings.toml"))
        found = round_named("v9.9")
        changes_of(default_round(), found)
        for rules in found.workloads.values():
            list(facts_of_rules(rules))
        list(rounds_with("llama2-70b", scenario="Interactive", category="datacenter"))
        recognise_round({"effective_qsl_rng_seed": 1})

    fuzz.toml(read, text)


def test_price_files(fuzz):
    fuzz.toml(read_prices, PRICES)
    fuzz.paths(read_prices)


def test_descriptions_of_mini_profiles(fuzz):
    fuzz.toml(lambda file: read_mini(Profile, file.parent), MINI, "mini.toml")


@pytest.mark.parametrize("repeats", ["1000000000000000", "10001", "0", "-1", "1" * 5000])
def test_a_suite_of_more_repeats_than_there_can_be_is_refused_at_once(mlbench, tmp_path, repeats):
    file = tmp_path / "suite.toml"
    file.write_text(SUITE.replace("repeats = 3", f"repeats = {repeats}"))
    assert mlbench("run", "--suite", file, "--results", tmp_path / "results").exit_code == 2
    assert mlbench("run", "bert", "--repeat", repeats, "--results", tmp_path / "results").exit_code == 2
    assert not (tmp_path / "results").exists()


def test_a_suite_of_more_runs_than_there_can_be_is_refused_at_once(mlbench, tmp_path, monkeypatch):
    monkeypatch.setattr("mlbench.planning.suite.MOST_RUNS", 7)
    file = tmp_path / "suite.toml"
    entry = SUITE[SUITE.index("[[runs]]") :]
    file.write_text('name = "nightly"\n' + entry * 2)
    done = mlbench("run", "--suite", file, "--results", tmp_path / "results")
    assert (done.exit_code, "runs.1: the suite has more than 7 runs" in done.stderr) == (2, True)
