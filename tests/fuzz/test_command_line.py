"""What a user types."""

import json
import os

import pytest

NAMES = [
    ["show", "{}"],
    ["table", "{}"],
    ["verify", "{}"],
    ["compare", "{}", "one"],
    ["compare", "one", "one", "--across", "{}"],
    ["history", "{}"],
    ["history", "--workload", "{}"],
    ["regress", "{}", "--baseline", "good"],
    ["regress", "--baseline", "{}"],
    ["baseline", "save", "{}", "one"],
    ["baseline", "show", "{}"],
    ["baseline", "remove", "{}"],
    ["cost", "{}", "--price", "prices.toml"],
    ["cost", "small=one", "--price", "{}"],
    ["report", "--markdown", "{}"],
    ["report", "one", "--markdown", "-o", "{}"],
    ["published", "{}"],
    ["published", "--scenario", "{}"],
    ["published", "--place", "one", "--variant", "{}"],
    ["settings", "{}", "null"],
    ["settings", "bert", "{}"],
    ["settings", "bert", "null", "--scenario", "{}"],
    ["run", "{}"],
    ["run", "bert", "--backend", "{}"],
    ["run", "bert", "--backend", "null", "--scenario", "{}"],
    ["run", "bert", "--backend", "null", "--scenario", "Nowhere", "--tag", "{}"],
    ["run", "bert", "--backend", "null", "--power", "a meter", "--set", "load.{}=1"],
    ["run", "bert", "--repeat", "{}", "--backend", "nowhere"],
    ["run", "--suite", "{}"],
    ["import", "{}"],
    ["import", "results", "--tag", "{}"],
    ["check", "{}"],
    ["check", "nowhere", "--timeout", "{}"],
    ["plugin", "new", "{}", "--into", "{}"],
    ["plugin", "check", "{}"],
    ["export", "{}"],
    ["export", "{}.csv", "--results", "{}"],
    ["query", "{}"],
    ["{}"],
    ["table", "--results", "{}"],
    ["history", "--results", "{}"],
    ["compare", "one", "one", "--margin", "{}"],
    ["compare", "one", "one", "--accuracy-margin", "{}"],
    ["doctor", "{}"],
]
SETTINGS = [
    *(
        "load.target_qps",
        "load.min_query_count",
        "load.stage_timeout_s",
        "load.memory_limit_gib",
        "load.coalesce_queries",
    ),
    *(
        "load.samples_per_query",
        "execution.batch",
        "execution.batching",
        "execution.instances",
        "execution.max_wait_us",
    ),
    *("backend.delay_ms", "workload.data", "workload.weights", "load", "backend.", "x"),
]


@pytest.fixture
def here(stored_run, tmp_path, monkeypatch):
    """Go to a folder with a run and a price file, where nothing else may appear."""
    folder = tmp_path / "a" / "b" / "c"  # so that "../../x" is below, too
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    (folder / "prices.toml").write_text('currency = "USD"\n[per_hour]\nsmall = 36\n')
    return folder


def files_in(folder):
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize("command", NAMES, ids=lambda command: " ".join(command[:4]))
def test_words(fuzz, here, mlbench, words, command):
    def use(word):
        before = files_in(here)
        done = fuzz.judge(mlbench, *(each.replace("{}", word) for each in command))
        assert done.exit_code != 2 or files_in(here) == before

    fuzz.draw(words, use, share=0.2)


@pytest.mark.parametrize("key", SETTINGS)
def test_values_of_settings(fuzz, here, mlbench, words, key):
    def use(word):
        fuzz.judge(mlbench, "settings", "bert", "null", "--json", "--set", f"{key}={word}")

    fuzz.draw(words, use, share=0.2)


@pytest.mark.parametrize(
    "setting", ["load.memory_limit_gib=1e308", "load.stage_timeout_s=1e300", "load.target_qps=1e308"]
)
def test_a_number_that_nothing_could_be_done_with_is_refused(mlbench, setting):
    done = mlbench("settings", "bert", "null", "--set", setting)
    assert (done.exit_code, "Input should be less than or equal to" in done.stderr) == (2, True)


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "NaN"])
@pytest.mark.parametrize("option", ["--margin", "--accuracy-margin"])
def test_a_margin_that_is_no_number_is_refused(here, mlbench, option, value):
    assert mlbench("compare", "one", "one", option, value).exit_code == 2


def test_check_leaves_a_file_beside_a_path_alone(here, mlbench):
    """The log of a check is named after its backend, and a path names none."""
    (here / "x.log").write_text("mine")
    for name in (here / "x", "../x", "./x"):
        assert mlbench("check", name).exit_code == 2
    assert (here / "x.log").read_text() == "mine"
    assert mlbench("check", "no-such-backend").exit_code == 2
    assert not list(here.glob("**/no-such-backend.log"))


def test_a_plugin_of_three_hundred_letters_is_refused(here, mlbench):
    done = mlbench("plugin", "new", "a" * 300)
    assert (done.exit_code, "100 characters at most" in done.stderr) == (2, True)
    assert mlbench("plugin", "new", "a" * 60).exit_code == 0


def test_a_report_has_to_go_to_a_file(here, mlbench):
    for name in ("", ".", "/", "x" * 255):
        assert mlbench("report", "one", "--markdown", "-o", name).exit_code in (0, 2)
    assert not list(here.glob("*.partial"))


def test_an_import_under_an_odd_tag_stores_nothing(here, mlbench):
    for tag in ("x" * 201, "\x1b[31m", "\udcff", "a\nb"):
        assert mlbench("import", "results", "--tag", tag).exit_code == 2


def test_paths(fuzz, here, mlbench):
    for command in (["run", "--suite"], ["cost", "small=one", "--price"], ["table", "--results"]):
        fuzz.paths(lambda path, command=command: mlbench(*command, path), are_typed=True)


@pytest.mark.parametrize(
    "command",
    [
        ["history", "--results", "{}"],
        ["run", "--suite", "{}"],
        ["cost", "small=one", "--price", "{}"],
        ["report", "one", "-o", "{}"],
        ["plugin", "new", "x", "--into", "{}"],
        ["show", "{}"],
        ["{}"],
    ],
    ids=lambda command: command[0],
)
def test_half_a_character_is_refused(here, mlbench, command):
    done = mlbench(*(each.replace("{}", "\ud800") for each in command))
    assert (done.exit_code, done.stderr) == (2, "Error: '\\ud800' is not valid Unicode.\n")


def test_settings_of_a_run_are_json(mlbench):
    done = mlbench("settings", "bert", "null", "--json")
    assert json.loads(done.stdout)["load.target_qps"]["value"] == 0
