"""Full profiles on the official files, where `mlbench fetch` has brought them: ``pytest -m data``.

Counts are those of MLPerf Inference v4.1, "Benchmarks". What is not there is skipped by name.
"""

import json

import pytest
from invoking import invoke

from mlbench import Variant
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.fetching.fetched_settings import fetched_settings
from mlbench.records.run_record import read
from mlbench.settings.layers import fill_template
from mlbench.system.folders import data_folder

pytestmark = [pytest.mark.data, pytest.mark.slow]

SAMPLES = {
    "resnet50": 50_000,
    "retinanet": 24_781,
    "3d-unet": 43,
    "bert": 10_833,
    "dlrm-v2": 330_067,
    "gptj": 13_368,
    "llama2-70b": 24_576,
    "mixtral-8x7b": 15_000,
    "stable-diffusion-xl": 5_000,
}
FITS_A_SMALL_MACHINE = ("resnet50", "retinanet", "bert", "3d-unet")
"""Those that a machine without an accelerator runs in minutes."""


def full(name):
    """Return a workload and its full variant on the fetched files; skips where these are not all there."""
    workload = Plugins.discover().workload(name)
    options = fetched_settings(workload, data_folder())
    if not {"workload.data", "workload.weights"} <= set(options):
        pytest.skip(f"the official files of {name} are not in {data_folder()}: mlbench fetch {name}")
    filled = fill_template(workload.options, "workload", options)
    return workload, Variant(profile=Profile.FULL, weights=Weights.TRAINED, options=filled)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_official_files_hold_as_many_samples_as_the_rules_say(name):
    workload, variant = full(name)
    dataset = workload.dataset(variant)
    assert dataset.count == SAMPLES[name]
    assert workload.model(variant).deviations == ()


@pytest.mark.parametrize("name", FITS_A_SMALL_MACHINE)
def test_a_full_profile_runs_on_the_official_files(name, tmp_path):
    full(name)
    arguments = ("run", name, "--profile", "full", "--scenario", "Offline", "--no-accuracy", "--json")
    done = invoke(*arguments, "--set", "execution.batch=1", "--results", tmp_path)
    assert done.exit_code == 0, done.stderr
    (run,) = json.loads(done.stdout)
    record = read(tmp_path / run["run_id"])
    assert record.samples["dataset"] == SAMPLES[name]
    assert not any(rule.rule == "official_files" for rule in record.verdict.rules)
