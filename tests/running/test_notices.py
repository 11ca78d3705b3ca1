"""Plugins are told that runs and suites begin and end: in order, whatever happens in between, and harm nothing."""

import json
import sys
from dataclasses import replace

import pytest

from mlbench import hookimpl
from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, resolve
from mlbench.planning.run_plan import RunPlan
from mlbench.running.notices import run_notices, suite_notices


class Listening:
    """Notes all notices."""

    def __init__(self):
        self.heard = []

    @hookimpl
    def mlbench_run_begins(self, folder, tag):
        self.heard.append(("begins", folder.name, tag, folder.exists()))

    @hookimpl
    def mlbench_run_stored(self, folder):
        self.heard.append(("stored", folder.name))

    @hookimpl
    def mlbench_run_ended(self, folder, is_stored):
        self.heard.append(("ended", folder.name, is_stored))

    @hookimpl
    def mlbench_suite_begins(self, name, results, count):
        self.heard.append(("suite begins", name, results.name, count))

    @hookimpl
    def mlbench_suite_ended(self, name):  # a hook may take fewer arguments
        self.heard.append(("suite ended", name))


class Grumbling:
    """Fails whatever it hears."""

    @hookimpl
    def mlbench_run_begins(self):
        raise OSError("no more paper")

    mlbench_run_ended = mlbench_suite_begins = mlbench_suite_ended = mlbench_run_begins


@pytest.fixture
def listening():
    """Return plugins, and a listener among them beside one that fails."""
    plugins, listener = Plugins.discover(), Listening()
    plugins.hooks.register(listener, name="listener (listener)")
    plugins.hooks.register(Grumbling(), name="grumbler (grumbler)")
    return plugins, listener


@pytest.fixture
def plan(tmp_path):
    """Return a plan of two runs of a suite."""
    results = tmp_path / "results"
    request = RunRequest(workload="resnet50", backend="null", scenario="Offline", results=results, tag="nightly")
    return RunPlan(requests=(resolve(request, Plugins.discover()),) * 2, suite="nightly")


def test_a_run_that_is_stored_begins_and_ends(listening, tmp_path, caplog):
    plugins, listener = listening
    with run_notices(tmp_path / "a-run", "nightly", plugins):
        (tmp_path / "a-run").mkdir()
        (tmp_path / "a-run" / "record.json").touch()
    assert listener.heard == [("begins", "a-run", "nightly", False), ("ended", "a-run", True)]
    assert caplog.messages == [
        "plugin grumbler (grumbler) did not take the begin of a-run: OSError: no more paper",
        "plugin grumbler (grumbler) did not take the end of a-run: OSError: no more paper",
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_run_that_is_not_stored_ends_too(listening, tmp_path, error):
    plugins, listener = listening
    with pytest.raises(error), run_notices(tmp_path / "a-run", "", plugins):
        raise error
    assert listener.heard[-1] == ("ended", "a-run", False)


def test_a_suite_begins_and_ends_also_where_it_is_interrupted(listening, plan):
    plugins, listener = listening
    with pytest.raises(KeyboardInterrupt), suite_notices(plan, plugins):
        raise KeyboardInterrupt
    assert listener.heard == [("suite begins", "nightly", "results", 2), ("suite ended", "nightly")]


@pytest.mark.parametrize("changes", [{"suite": ""}, {"requests": ()}])
def test_runs_of_no_suite_and_a_suite_without_runs_to_make_are_no_news(listening, plan, changes):
    plugins, listener = listening
    with suite_notices(replace(plan, **changes), plugins):
        pass
    assert listener.heard == []


PLUGIN = """
import json
from mlbench import hookimpl

def note(**facts):
    with open({place!r}, "a") as file:
        file.write(json.dumps({{name: getattr(value, "name", value) for name, value in facts.items()}}) + "\\n")

@hookimpl
def mlbench_run_begins(folder, tag): note(what="begins", run=folder, tag=tag)
@hookimpl
def mlbench_run_stored(folder): note(what="stored", run=folder)
@hookimpl
def mlbench_run_ended(folder, is_stored): note(what="ended", run=folder, is_stored=is_stored)
@hookimpl
def mlbench_suite_begins(name, count): note(what="suite begins", name=name, count=count)
@hookimpl
def mlbench_suite_ended(name): note(what="suite ended", name=name)
"""


@pytest.mark.slow
def test_a_plugin_from_outside_hears_of_the_runs_of_a_suite(mlbench, tmp_path, monkeypatch):
    (tmp_path / "heard_plugin.py").write_text(PLUGIN.format(place=str(tmp_path / "heard")))
    (tmp_path / "heard-1.dist-info").mkdir()
    (tmp_path / "heard-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: heard\nVersion: 1\n")
    (tmp_path / "heard-1.dist-info" / "entry_points.txt").write_text("[mlbench]\nheard = heard_plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    suite = {"workload": "resnet50", "backend": "null", "scenario": "SingleStream", "accuracy": False}
    lines = [f"{key} = {json.dumps(value)}" for key, value in suite.items()]
    (tmp_path / "suite.toml").write_text('name = "nightly"\n[[runs]]\n' + "\n".join(lines) + "\n")
    short = ("--set", "load.min_duration_ms=50")
    done = mlbench("run", "--suite", str(tmp_path / "suite.toml"), *short)
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    (run,) = [each.name for each in (tmp_path / "results").iterdir() if not each.name.startswith(".")]
    assert heard == [
        {"what": "suite begins", "name": "nightly", "count": 1},
        {"what": "begins", "run": run, "tag": "nightly"},
        {"what": "stored", "run": run},
        {"what": "ended", "run": run, "is_stored": True},
        {"what": "suite ended", "name": "nightly"},
    ], done.output
    sys.modules.pop("heard_plugin")
