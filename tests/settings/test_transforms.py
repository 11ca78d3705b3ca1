"""Transforms as typed become configured ones, and go into a run's request, its division and its record's facts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from mlbench import Model, NoOptions, Transform
from mlbench.comparison.comparability import across_with_what_follows, differences, key_of
from mlbench.discovery.validation import check_transform
from mlbench.errors import PluginError, UsageError
from mlbench.planning.repeats import request_of
from mlbench.planning.requests import combinations, resolve
from mlbench.planning.suite import key_of_request, read_suite, requests_of
from mlbench.rules.entry_demand import Division
from mlbench.running.turns import arguments_of, request_like
from mlbench.settings.transforms import choose_transforms, spell_chain


def asked(plugins, transform, workload="gptj", backend="pytorch", **more):
    (request,) = combinations(plugins, [workload], [backend], ["Offline"], transform=transform, **more)
    return request


def test_values_fill_options_in_their_order_and_records_spell_all_of_them(plugins):
    assert spell_chain("prune-layers sparse:1", plugins) == "prune-layers:0.25:0 sparse:1:4"
    assert spell_chain(["sparse", "prune-layers:0.5"], plugins) == "sparse:2:4 prune-layers:0.5:0"
    assert [each.options.share for each in choose_transforms("prune-layers:0.5 prune-layers", plugins)] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("prune-leyers", "unknown transform 'prune-leyers'. Did you mean 'prune-layers'?"),
        ("prune-layers:much", "transform 'prune-layers:much': transform.share is 'much'"),
        ("prune-layers:1.5", "Input should be less than 1"),
        ("prune-layers:nan", "transform 'prune-layers:nan'"),
        ("sparse:2:4:8", "has 3 values, not 2. It is sparse:KEPT:OF, by default sparse:2:4."),
        ("sparse:2.5", "valid integer"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(plugins, typed, words):
    with pytest.raises(UsageError) as caught:
        spell_chain(typed, plugins)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_of_a_pruned_model_is_made_for_the_open_division(plugins):
    assert asked(plugins, "prune-layers").entry.division is Division.OPEN
    assert asked(plugins, "").entry.is_default
    assert resolve(asked(plugins, "prune-layers"), plugins).transform == "prune-layers:0.25:0"


def test_quantisation_after_training_stays_in_the_closed_division(plugins, monkeypatch):
    monkeypatch.setattr(type(plugins.transform("sparse")), "is_closed", True)
    assert asked(plugins, "sparse").entry.is_default
    assert asked(plugins, "sparse prune-layers").entry.division is Division.OPEN


def test_an_engine_that_would_run_the_untouched_model_is_refused(plugins):
    with pytest.raises(UsageError, match=r"null compiles no graphs, so transform sparse:2:4 would change nothing"):
        resolve(asked(plugins, "sparse", workload="bert", backend="null"), plugins)


def test_what_writes_files_is_for_a_backend_that_loads_them_and_nothing_else_is(plugins, monkeypatch):
    for backend in ("pytorch", "null"):
        with pytest.raises(UsageError, match=rf"gptq:0:128 writes a folder of weights, which {backend} does not load"):
            resolve(asked(plugins, "gptq", backend=backend), plugins)
    monkeypatch.setattr(type(plugins.backend("null")), "loads_files", True)
    assert resolve(asked(plugins, "gptq", backend="null"), plugins).transform == "gptq:0:128"
    with pytest.raises(UsageError, match="null compiles no graphs, so transform sparse:2:4 would change nothing"):
        resolve(asked(plugins, "gptq sparse", backend="null"), plugins)


def test_a_suite_names_transforms_and_knows_its_runs_by_them(plugins, tmp_path):
    file = Path(tmp_path / "s.toml")
    entry = '[[runs]]\nworkload = "gptj"\nbackend = "pytorch"\nscenario = "Offline"\n'
    file.write_text(f'name = "s"\n{entry}{entry}transform = ["prune-layers:0.34", "sparse"]\n')
    plain, changed = requests_of(read_suite(file), plugins, results=tmp_path)
    assert (plain.transform, changed.transform) == ("", "prune-layers:0.34:0 sparse:2:4")
    assert key_of_request(plain) != key_of_request(changed)


def test_a_stored_run_is_asked_for_again_with_its_transforms(a_run, tmp_path):
    run = a_run(transform="prune-layers:0.25 sparse:2:4")
    assert request_of(run).transform == run.transform
    words = arguments_of(request_like(run, tmp_path))
    assert words[words.index("--transform") :][:4] == ["--transform", "prune-layers:0.25", "--transform", "sparse:2:4"]


def test_runs_differ_by_their_transforms_and_are_compared_across_them(a_run):
    fingerprints = {**a_run().fingerprints, "transformed reader": "1"}
    entry = {"model": "resnet50", "variant": "99", "category": "", "division": "open"}
    base, new = a_run(), a_run(transform="sparse:2:4", fingerprints=fingerprints, entry=entry)
    assert key_of(base, ["transform"]) == key_of(new, ["transform"])
    found = {each.fact: str(each) for each in differences(base, new)}
    assert found["transform"] == "transform differs: none, then sparse:2:4"
    assert found.keys() <= {*across_with_what_follows(["transform"])}


@dataclass(frozen=True)
class Anything:
    file: str = ""


@dataclass(frozen=True)
class Words:
    kind: Literal["a b"] = "a b"


@pytest.mark.parametrize(
    ("options", "words"),
    [(Anything(), "option file takes any text"), (Words(), "has a colon or a space"), (3, "not an instance")],
)
def test_options_that_a_strangers_record_could_misuse_break_a_transform(options, words):
    class Loose(Transform):
        name = "loose"

        def apply(self, model: Model, calibration) -> Model:
            return model

    loose = Loose()
    assert check_transform(loose) is None
    assert loose.options == NoOptions()
    with pytest.raises(PluginError, match=words):
        check_transform(loose.with_options(options))
