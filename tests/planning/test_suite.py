"""Suite files: what they may say, what they expand to, and what is left to do after some of it was done."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from invoking import invoke, refusal

from mlbench import UsageError
from mlbench.planning.suite import (
    SCHEMA_FILE,
    differing_facts,
    in_pairs,
    key_of_request,
    missing,
    read_suite,
    requests_of,
    schema_text,
)
from mlbench.records.run_record import read
from mlbench.records.store.run_folder import runs_in

TWO_BY_TWO = """
name = "nightly"
repeats = 2
[[runs]]
workload = ["resnet50", "bert"]
backend = "null"
scenario = ["Offline", "SingleStream"]
accuracy = false
settings = { "load.min_duration_ms" = 50, "backend.delay_ms" = 1 }
"""


@pytest.fixture
def suite_file(tmp_path):
    """Write a suite file, and return its path."""

    def suite_file(text, name="suite.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return suite_file


@pytest.fixture
def requests(suite_file, plugins, tmp_path):
    """Return what a suite file expands to."""
    return lambda text, **more: requests_of(read_suite(suite_file(text)), plugins, results=tmp_path / "results", **more)


def named(request):
    return request.workload, request.scenario, request.repeat


def test_a_suite_is_every_combination_once_and_then_again(requests):
    assert [named(request) for request in requests(TWO_BY_TWO)] == [
        ("resnet50", "Offline", 1),
        ("resnet50", "SingleStream", 1),
        ("bert", "Offline", 1),
        ("bert", "SingleStream", 1),
        ("resnet50", "Offline", 2),
        ("resnet50", "SingleStream", 2),
        ("bert", "Offline", 2),
        ("bert", "SingleStream", 2),
    ]


def test_sequential_repeats_follow_each_other(requests):
    found = requests('order = "sequential"\n' + TWO_BY_TWO)
    assert [named(request) for request in found][:3] == [
        ("resnet50", "Offline", 1),
        ("resnet50", "Offline", 2),
        ("resnet50", "SingleStream", 1),
    ]


def test_without_a_scenario_all_run_that_the_rules_define(requests):
    text = 'name = "n"\n[[runs]]\nworkload = "bert"\nbackend = "null"\n'
    assert {request.scenario for request in requests(text)} == {"Offline", "Server", "SingleStream"}


def test_runs_carry_the_suites_name_and_its_settings_a_layer_of_their_own(requests, plugins):
    from mlbench.planning.requests import settings_of

    request = requests(TWO_BY_TWO)[0]
    assert request.tag == "nightly"
    setting = settings_of(request, plugins).by_key["backend.delay_ms"]
    assert (setting.value, setting.layer) == (1, "suite")


def test_the_command_line_wins_over_the_file(requests, plugins):
    from mlbench.planning.requests import settings_of

    request = requests(TWO_BY_TWO, overrides={"backend.delay_ms": "3"})[0]
    setting = settings_of(request, plugins).by_key["backend.delay_ms"]
    assert (setting.value, setting.layer) == (3, "command line")


def test_pairs_alternate_their_order_so_that_drift_hits_both(requests):
    base = requests(TWO_BY_TWO)[:3]
    new = [replace(request, tag="other") for request in base]
    assert [request.tag for request in in_pairs(base, new)] == [
        "nightly",
        "other",
        "other",
        "nightly",
        "nightly",
        "other",
    ]
    with pytest.raises(UsageError, match="the first suite has 3 runs, the second 2"):
        in_pairs(base, new[:2])
    with pytest.raises(UsageError, match="both suites are called 'nightly'"):
        in_pairs(base, base)
    with pytest.raises(UsageError, match="resnet50 Offline would be paired with bert Offline"):
        in_pairs(base, new[::-1])


def test_each_run_of_an_even_suite_goes_first_as_often_as_second(requests):
    base = requests(TWO_BY_TWO)
    in_order = in_pairs(base, [replace(request, tag="other") for request in base])
    offline = [run.tag for run in in_order if (run.workload, run.scenario) == ("resnet50", "Offline")]
    assert offline == ["nightly", "other", "other", "nightly"]


def test_a_suite_of_one_run_is_made_in_turns_too(requests):
    base = [request for request in requests(TWO_BY_TWO) if named(request)[:2] == ("bert", "Offline")]
    tags = [run.tag for run in in_pairs(base, [replace(request, tag="other") for request in base])]
    assert tags == ["nightly", "other", "other", "nightly"]


def test_what_two_files_name_differently_is_what_is_compared(requests):
    base = requests(TWO_BY_TWO)
    new = [replace(request, tag="other", suite_settings={"backend.delay_ms": 2}) for request in base]
    assert differing_facts(base, new) == ["settings"]
    assert differing_facts(base, [replace(request, backend="pytorch") for request in base]) == ["backend"]


def test_the_schema_beside_the_code_is_that_of_the_code():
    """Write it anew with ``python -m mlbench.planning.suite``."""
    assert SCHEMA_FILE.read_text() == schema_text()


BROKEN = {
    "unknown key": (TWO_BY_TWO + 'color = "red"\n', "runs.0.color: Extra inputs are not permitted"),
    "no repeats": (TWO_BY_TWO.replace("repeats = 2", "repeats = 0"), "repeats: Input should be greater than"),
    "no runs": ('name = "n"\n', "runs: Field required"),
    "no name": (TWO_BY_TWO.replace('name = "nightly"', ""), "name: Field required"),
    "unknown workload": (TWO_BY_TWO.replace('"bert"', '"brt"'), "unknown workload 'brt'. Did you mean 'bert'?"),
    "unknown setting": (TWO_BY_TWO.replace("delay_ms", "delay"), "unknown setting 'backend.delay' (suite)"),
    "wrong value": (TWO_BY_TWO.replace("= 1 }", '= "x" }'), "backend.delay_ms is 'x' (suite)"),
    "undefined": (
        TWO_BY_TWO.replace("SingleStream", "MultiStream"),
        "runs.0: bert MultiStream: the rules do not define this combination",
    ),
    "no TOML": ("name = ", "is not a TOML file"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_suite_file_gets_one_line_before_anything_runs(suite_file, tmp_path, fault):
    text, told = BROKEN[fault]
    results = tmp_path / "results"
    assert told in refusal(invoke("run", "--suite", suite_file(text), "--results", results))
    assert not results.exists()


def test_a_missing_suite_file_and_flags_beside_it_are_refused(tmp_path, suite_file):
    done = invoke("run", "--suite", tmp_path / "no.toml")
    assert (done.exit_code, "suite file cannot be read" in done.stderr) == (2, True)
    done = invoke("run", "bert", "--suite", suite_file(TWO_BY_TWO))
    assert (done.exit_code, "workloads is given together with --suite" in done.stderr) == (2, True)


QUICK = """
name = "quick"
repeats = 2
[[runs]]
workload = "resnet50"
backend = "null"
scenario = ["Offline", "SingleStream"]
accuracy = false
settings = { "load.min_duration_ms" = 50, "backend.delay_ms" = 1 }
"""


def kill_in_run(command, number, results):
    """Start a command, and kill it with all it started as soon as so many runs are stored and the next has begun."""
    left = set(results.glob(".*"))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None:
        if len(runs_in(results)) == number and set(results.glob(".*")) - left:
            break
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_run_for_another_entry_is_none_of_the_suites(requests):
    plain, opened, strict = (
        requests(f'name = "n"\n[[runs]]\nworkload = "bert"\nbackend = "null"\nscenario = "Offline"\n{line}\n')
        for line in ("", 'division = "open"', 'variant = "99.9"')
    )
    keys = [key_of_request(each) for (each,) in (plain, opened, strict)]
    assert len(set(keys)) == 3
    assert [each.entry.variant for (each,) in (plain, opened, strict)] == ["", "99", "99.9"]


def test_a_run_that_is_there_is_not_made_again_but_where_all_are_asked_for_afresh(suite_file, tmp_path):
    text = QUICK.replace('["Offline", "SingleStream"]', '"SingleStream"').replace("repeats = 2", "repeats = 1")
    words = ["run", "--suite", str(suite_file(text)), "--results", str(tmp_path / "results")]
    printed = [invoke(*words, *more).stderr for more in ([], [], ["--fresh"])]
    assert ["stored already" in each for each in printed] == [False, True, False]
    assert len(runs_in(tmp_path / "results")) == 2


@pytest.mark.thorough("command line")
def test_a_suite_killed_again_and_again_leaves_the_runs_of_an_undisturbed_one(suite_file, tmp_path, plugins):
    file, results = suite_file(QUICK), tmp_path / "results"
    command = [
        sys.executable,
        "-m",
        "mlbench",
        "run",
        "--suite",
        str(file),
        "--results",
        str(results),
    ]
    for number in (0, 0, 2):
        kill_in_run(command, number, results)
        assert [folder.suffix for folder in results.glob(".*")] == [".partial"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert not list(results.glob(".*"))
    records = [read(folder) for folder in runs_in(results)]
    assert sorted((record.scenario, record.repeat) for record in records) == [
        ("Offline", 1),
        ("Offline", 2),
        ("SingleStream", 1),
        ("SingleStream", 2),
    ]
    assert not missing(requests_of(read_suite(file), plugins, results=results), records)
    done = subprocess.run([*command, "--json"], check=False, capture_output=True, text=True)
    assert "All 4 runs are stored already" in done.stderr
    assert len(json.loads(done.stdout)) == 4
    assert len(runs_in(results)) == 4


@pytest.mark.thorough("command line")
def test_two_processes_that_make_one_suite_in_one_folder_make_each_run_once(suite_file, tmp_path):
    file, results = suite_file(QUICK), tmp_path / "results"
    arguments = ["run", "--suite", str(file), "--results", str(results), "--json"]
    command = [sys.executable, "-m", "mlbench", *arguments]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    printed = [json.loads(process.communicate()[0]) for process in both]
    stored = sorted(folder.name for folder in runs_in(results))
    assert len(stored) == 4
    assert [sorted(record["run_id"] for record in records) for records in printed] == [stored, stored]


@pytest.mark.thorough("command line")
def test_two_files_measured_in_turns_name_the_slower(suite_file, tmp_path):
    text = QUICK.replace('["Offline", "SingleStream"]', '"Offline"').replace("resnet50", "3d-unet")
    text = text.replace("repeats = 2", "repeats = 3")
    text = text.replace('"load.min_duration_ms" = 50, "backend.delay_ms" = 1', '"backend.service_ms" = 20')
    base = suite_file(text)
    new = suite_file(text.replace("quick", "slowed").replace("= 20", "= 100"), name="slowed.toml")
    results = tmp_path / "results"
    done = invoke("compare", "--run", base, new, "--results", results, "--json")
    assert done.exit_code == 0, done.output
    (judged,) = json.loads(done.stdout)["cells"][0]["speeds"]
    assert judged["verdict"] == "slower"
    assert judged["effect"]["ratio"] < 0.4, "a fifth, where nothing but the service takes time"
    in_order = sorted((read(folder) for folder in runs_in(results)), key=lambda record: record.created)
    assert [record.tag for record in in_order] == ["quick", "slowed", "slowed", "quick", "quick", "slowed"]
