"""A stranger's plugin that hears of stored runs: installed from outside, used by real runs, read by the csv module."""

import csv
import json
from pathlib import Path

import pytest

from mlbench.discovery import Plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlbench_ledger"


def lines_of(results):
    with (results / "ledger.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.thorough("examples")
def test_every_stored_run_is_a_line_of_the_ledger(mlbench, with_the_plugin):
    request = ["run", "resnet50", "--backend", "null", "--scenario", "SingleStream", "--no-accuracy", "--repeat", "2"]
    done = mlbench(*request, "--json", "--set", "load.min_duration_ms=50")
    records = json.loads(done.stdout)
    lines = lines_of(Path(with_the_plugin["MLBENCH_RESULTS"]))
    assert [line["run_id"] for line in lines] == [record["run_id"] for record in records]
    for line, record in zip(lines, records, strict=True):
        assert float(line["value"]) == record["result"]["value"]
        assert (line["unit"], line["scenario"], line["status"]) == ("ns", "SingleStream", "completed")
    assert "did not take" not in done.stderr


def test_a_failed_run_is_a_line_without_a_number(plugin, store, a_failure, tmp_path):
    plugin.mlbench_run_stored(store(a_failure))
    (line,) = lines_of(tmp_path)
    assert (line["status"], line["value"], line["is_valid"]) == ("failed", "", "")


def test_a_plugin_that_raises_is_warned_of_and_the_others_hear(plugin, store, a_run, tmp_path, caplog):
    class Grumbler:
        @staticmethod
        @plugin.hookimpl
        def mlbench_run_stored():  # a hook may take fewer arguments
            raise OSError("no more paper")

    plugins = Plugins.discover()
    plugins.hooks.register(plugin, name="ledger (mlbench-ledger)")
    plugins.hooks.register(Grumbler(), name="grumbler (grumbler)")
    plugins.notify_stored(store(a_run()))
    assert len(lines_of(tmp_path)) == 1
    (message,) = caplog.messages
    assert message.startswith("plugin grumbler (grumbler) did not take ")
    assert message.endswith("OSError: no more paper")
