"""Which plugin is used: the one that was named, or the best that runs here."""

import pytest

from mlbench import PluginError, Precision, UsageError
from mlbench.discovery import Plugins, nearest


def test_the_best_backend_for_a_precision_is_one_that_offers_it():
    pytest.importorskip("onnxruntime")
    plugins = Plugins.discover()
    assert plugins.best_backend(Precision.INT8).name == "onnxruntime"
    with_bf16 = plugins.best_backend(Precision.BF16)  # by the machine: OpenVINO where the processor multiplies bf16
    assert Precision.BF16 in plugins.probes()[with_bf16.name].precisions


def test_a_backend_of_negative_rank_runs_only_when_it_is_named():
    plugins = Plugins.discover()
    plugins.backends = {"null": plugins.backend("null")}
    with pytest.raises(PluginError, match="no backend is available here"):
        plugins.best_backend()
    with pytest.raises(PluginError, match="no backend offers int8 here"):
        plugins.best_backend(Precision.INT8)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError, match=r"unknown backend 'pytroch'\. Did you mean 'pytorch'\?"):
        Plugins.discover().backend("pytroch")


def test_a_name_like_no_other_lists_what_there_is():
    assert nearest("zzz", ["bert", "resnet50"]) == "There are: bert, resnet50."


def test_names_joined_by_commas_are_asked_for_one_by_one():
    known = ["pytorch", "onnxruntime", "openvino"]
    assert nearest("pytorch,onnxruntime", known) == "Give each by itself: 'pytorch', 'onnxruntime'."
    assert nearest("pytorch,onnxrun", known) == "Did you mean 'pytorch'?"


def test_scenarios_are_known_in_any_case():
    assert Plugins.discover().scenario("singlestream").name == "SingleStream"
