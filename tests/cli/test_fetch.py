"""``mlbench fetch``: what it takes, what a person must do, and where runs find what it brought."""

import json
from pathlib import Path

import pytest
from invoking import invoke

from mlbench.contracts.workload import Profile, Weights
from mlbench.fetching.lists import load_function
from mlbench.fetching.lock_file import LockFile
from mlbench.fetching.sources import read_sources
from mlbench.planning.requests import RunRequest, settings_of

NINE = "bert dlrm-v2 gptj llama2-70b mixtral-8x7b resnet50 retinanet stable-diffusion-xl 3d-unet".split()


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def run(*words):
    return invoke("fetch", *words)


def test_the_plan_of_all_nine_is_about_650_gigabytes_and_makes_nothing(data):
    done = run("--plan")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith("all: 650 GB to download of 650 GB, into ")
    assert not data.exists()


def test_the_plan_as_json_says_for_every_artifact_where_from_and_how_verified(plugins):
    plans = json.loads(run("--plan", "--json").stdout)
    assert {plan["workload"] for plan in plans} == set(NINE)
    artifacts = [artifact for plan in plans for artifact in plan["artifacts"]]
    assert all(each["where"] and each["verified_by"] for each in artifacts)
    assert [(each["id"], each["gate"]) for each in artifacts if each["ask"]] == [
        ("model/safetensors", "licence"),
        ("data/imagenet-val", "login"),
    ]
    weights = next(each for plan in plans if plan["workload"] == "dlrm-v2" for each in plan["artifacts"])
    assert weights["verified_by"] == "md5 of 10 files, sizes of the others in its manifest, and pinned at first use"


def test_an_unknown_workload_and_a_path_that_is_not_there_are_one_line():
    assert run("brt", "--plan").exit_code == 2
    done = run("bert", "--from", "/nowhere")
    assert (done.exit_code, done.stderr) == (
        2,
        "Error: /nowhere does not exist. --from names a file, or a folder that is searched.\n",
    )


@pytest.mark.parametrize("name", NINE)
def test_every_setting_is_an_option_and_every_function_exists(plugins, name):
    workload = plugins.workload(name)
    sources = read_sources(workload.sources)
    assert all(hasattr(workload.options, setting) for setting in sources.settings)
    for artifact in sources.needed:
        for function in filter(None, (artifact.items, artifact.convert)):
            assert callable(load_function(function))


def complete(data, plugins, name):
    """Let a data folder look as if all artifacts of a workload were there."""
    sources = read_sources(plugins.workload(name).sources)
    for path in sources.settings.values():
        (data / name / path).mkdir(parents=True)
    lock = LockFile.read(data)
    for artifact in sources.needed:
        lock.add_artifact(name, artifact, sources.round)
    return sources


@pytest.mark.parametrize("name", NINE)
def test_the_full_profile_finds_what_was_fetched_without_a_setting(data, plugins, name):
    sources = complete(data, plugins, name)
    request = RunRequest(workload=name, backend="null", scenario="Offline", profile=Profile.FULL)
    found = settings_of(request, plugins).by_key
    for setting, path in sources.settings.items():
        assert Path(found[f"workload.{setting}"].value) == data / name / path
        assert found[f"workload.{setting}"].layer == "data"
    options = settings_of(request, plugins).fill("workload", plugins.workload(name).options)
    needed = [field for field in ("data", "weights") if getattr(options, field) is None]
    assert needed == []


def test_the_command_line_goes_before_the_data_folder_and_random_weights_read_no_file(data, plugins):
    complete(data, plugins, "bert")
    own = {"workload.weights": "/mine/model.onnx"}
    common = {"workload": "bert", "backend": "null", "scenario": "Offline", "profile": Profile.FULL}
    chosen = settings_of(RunRequest(**common, overrides=own), plugins).by_key["workload.weights"]
    assert (str(chosen.value), chosen.layer) == ("/mine/model.onnx", "command line")
    random = settings_of(RunRequest(**common, weights=Weights.RANDOM), plugins).by_key["workload.weights"]
    assert random.value is None
    mini = settings_of(RunRequest(**common | {"profile": Profile.MINI}), plugins).by_key["workload.weights"]
    assert mini.value is None


def test_doctor_names_the_data_folder(data, monkeypatch):
    done = invoke("doctor")
    assert f"data        {data} (none)" in done.stdout
