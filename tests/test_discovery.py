import importlib
import sys

import pytest

from mlbench import PluginError, Precision, UsageError
from mlbench.discovery import Plugins, nearest

RIGHT = """
from mlbench import Backend, Probe, hookimpl

class Quick(Backend):
    name = "quick"
    def probe(self):
        return Probe(is_available=True, rank=1000)
    def engine(self, model, plan):
        raise NotImplementedError

@hookimpl
def mlbench_backends():
    return [Quick()]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install one-module plugins, as pip would leave them."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name, source):
        (tmp_path / f"{name}_plugin.py").write_text(source)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[mlbench]\n{name} = {name}_plugin\n")
        importlib.invalidate_caches()

    yield install
    for module in [module for module in sys.modules if module.endswith("_plugin")]:
        del sys.modules[module]


def broken_rows(plugins):
    return {broken.name: broken for broken in plugins.broken}


def test_the_built_in_plugins_are_found_through_their_entry_points():
    plugins = Plugins.discover()
    assert {"null", "pytorch", "onnxruntime"} <= set(plugins.backends)
    assert {"resnet50", "bert"} <= set(plugins.workloads)
    assert list(plugins.scenarios) == ["SingleStream", "MultiStream", "Server", "Offline"]
    assert plugins.broken == []


def test_a_strangers_backend_is_found(install):
    install("quick", RIGHT)
    assert Plugins.discover().best_backend().name == "quick"


def test_the_best_backend_for_a_precision_is_one_that_offers_it():
    pytest.importorskip("onnxruntime")
    plugins = Plugins.discover()
    assert plugins.best_backend(Precision.INT8).name == "onnxruntime"
    assert plugins.best_backend(Precision.BF16).name == "pytorch"


def test_a_backend_of_negative_rank_runs_only_when_it_is_named():
    plugins = Plugins.discover()
    plugins.backends = {"null": plugins.backend("null")}
    with pytest.raises(PluginError, match="no backend is available here"):
        plugins.best_backend()
    with pytest.raises(PluginError, match="no backend offers int8 here"):
        plugins.best_backend(Precision.INT8)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise OSError('libfast.so.3 is missing')", "OSError: libfast.so.3 is missing"),
        ("import sys; sys.exit('no licence')", "SystemExit: no licence"),
        ("def :", "SyntaxError"),
        (RIGHT.replace("return [Quick()]", "raise TypeError('no')"), "mlbench_backends raised TypeError: no"),
    ],
    ids=["raises at import", "exits at import", "no Python", "hook raises"],
)
def test_a_broken_plugin_is_a_row_with_its_reason_and_the_others_work(install, source, reason):
    install("quick", source)
    plugins = Plugins.discover()
    assert reason in broken_rows(plugins)["quick"].reason
    assert broken_rows(plugins)["quick"].distribution == "quick-plugin"
    assert "pytorch" in plugins.backends
    with pytest.raises(PluginError, match="cannot be used"):
        plugins.backend("quick")


def test_two_plugins_under_one_name_are_a_row_and_neither_is_used(install):
    install("quick", RIGHT)
    install("fast", RIGHT)
    plugins = Plugins.discover()
    assert "two plugins bring 'quick': fast and quick" in broken_rows(plugins)["quick"].reason
    with pytest.raises(PluginError, match="uninstall one"):
        plugins.backend("quick")


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError, match=r"unknown backend 'pytroch'\. Did you mean 'pytorch'\?"):
        Plugins.discover().backend("pytroch")


def test_a_name_like_no_other_lists_what_there_is():
    assert nearest("zzz", ["bert", "resnet50"]) == "There are: bert, resnet50."


def test_scenarios_are_known_in_any_case():
    assert Plugins.discover().scenario("singlestream").name == "SingleStream"
