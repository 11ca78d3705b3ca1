"""Options that are given are in force, and exit statuses say how it went."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from invoking import invoke, refusal

from mlbench.cli import run_maker
from mlbench.conformance.isolated import Finding
from mlbench.records.machine.noise import Noise
from mlbench.records.published import select_published
from mlbench.records.store.baselines import save_baseline
from mlbench.running.runner import UnstoredRunError


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


@pytest.fixture
def mlbench(results):
    return invoke


@pytest.fixture
def store(a_run, results):
    """Store a run per throughput, ten minutes apart, from a day of November on."""

    def store(name, values, *, day=1, **changes):
        for number, value in enumerate(values):
            run = a_run(
                run_id=f"{name}-{number}",
                created=datetime(2026, 11, day, tzinfo=UTC) + timedelta(minutes=10 * number),
                result=a_run().result.model_dump() | {"value": value},
                tag=name,
                **changes,
            )
            (results / run.run_id).mkdir()
            (results / run.run_id / "record.json").write_text(run.text())

    return store


@pytest.fixture
def made(a_run, monkeypatch):
    """Note the runs that a command makes instead of measuring them."""
    requests = []

    def note(request, *others, **how):
        requests.append((request.workload, request.scenario, request.repeat))
        return a_run(workload=request.workload, scenario=request.scenario)

    monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", note)
    return requests


@pytest.fixture
def given(a_run, a_failure, monkeypatch):
    """Let runs end as told, one after another, instead of measuring; return those that are left."""
    invalid = a_run(verdict=a_run().verdict.model_dump() | {"is_valid": False})
    records = {"good": a_run(), "invalid": invalid, "failed": a_failure}

    def given(*ends):
        left = list(ends)

        def give(request, *others, **how):
            end = left.pop(0)
            if end == "not stored":
                raise UnstoredRunError("no space left.", hint="Make room.", record=a_run())
            return records[end]

        monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", give)
        return left

    return given


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        (("good", "good"), 0),
        (("good", "invalid"), 1),
        (("invalid", "good"), 1),
        (("good", "failed"), 1),
        (("good", "not stored"), 1),
        (("not stored", "not stored"), 1),
    ],
)
def test_a_run_command_is_good_where_every_run_was_made_and_counts(mlbench, given, ends, status):
    left = given(*ends)
    done = mlbench("run", "resnet50", "--backend", "null", "--scenario", "Offline", "--repeat", 2)
    assert (done.exit_code, left) == (status, [])


def test_repeats_are_made_in_turns(mlbench, made):
    done = mlbench("run", "resnet50", "bert", "--backend", "null", "--scenario", "Offline", "--repeat", 2)
    assert done.exit_code == 0, done.output
    assert made == [
        ("resnet50", "Offline", 1),
        ("bert", "Offline", 1),
        ("resnet50", "Offline", 2),
        ("bert", "Offline", 2),
    ]


def test_a_combination_that_the_rules_do_not_define_is_named_and_the_others_run(mlbench, made):
    done = mlbench("run", "3d-unet", "resnet50", "--backend", "null", "--scenario", "Server")
    assert "3d-unet Server: the rules do not define this combination." in done.stderr
    assert made == [("resnet50", "Server", 1)]


def test_json_is_an_array_of_the_records_and_nothing_else(mlbench, made):
    done = mlbench("run", "resnet50", "--backend", "null", "--scenario", "Offline", "--repeat", 2, "--json")
    assert [record["workload"] for record in json.loads(done.stdout)] == ["resnet50", "resnet50"]


def test_a_setting_of_the_command_line_is_in_force_and_says_where_it_comes_from(mlbench):
    done = mlbench("settings", "resnet50", "null", "--set", "load.min_duration_ms=77", "--json")
    found = json.loads(done.stdout)["load.min_duration_ms"]
    assert (found["value"], found["layer"]) == (77, "command line")


@pytest.mark.parametrize(
    ("option", "field", "value"), [("--margin", "margin", 0.2), ("--accuracy-margin", "accuracy_margin", 0.1)]
)
def test_a_margin_that_is_given_is_the_one_that_is_used(mlbench, store, option, field, value):
    store("old", [100.0, 101.0, 99.0])
    store("new", [100.0, 101.0, 99.0], day=2)
    assert json.loads(mlbench("compare", "old", "new", option, value, "--json").stdout)[field] == value
    assert json.loads(mlbench("compare", "old", "new", "--json").stdout)[field] != value
    assert mlbench("baseline", "save", "b", "old").exit_code == 0
    assert json.loads(mlbench("regress", "new", "--baseline", "b", option, value, "--json").stdout)[field] == value


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-0.1", "1", "much", "100%", "5%%", "memory=nan", "memory=", "=5%", "disk=5%", "a=b=5%"]
)
def test_a_margin_that_is_no_share_is_refused(mlbench, value):
    done = mlbench("compare", "a", "b", "--margin", value)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "'--margin'" in done.stderr, "not that there is no run a"


def test_a_report_counts_as_the_same_what_the_margin_allows(mlbench, store):
    store("old", [100.0, 101.0, 99.0])
    store("new", [100.0, 101.0, 99.0], day=2)
    for options, share in (((), "5%"), (("--margin", 0.2), "20%")):
        done = mlbench("report", "--compare", "old", "new", "--markdown", *options)
        assert f"Changes counted as the same: of a speed less than {share}" in done.stdout, done.output


def test_settings_are_those_of_the_tier_that_was_asked_for(mlbench, tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text('[[settings]]\nwhen = { tier = "dev" }\nexecution.batch = 4\n')
    monkeypatch.setenv("MLBENCH_SETTINGS", str(file))
    for options, batch in ((("--tier", "dev"), 4), (("--tier", "valid"), "auto"), ((), "auto")):
        done = mlbench("settings", "bert", "pytorch", *options, "--json")
        assert json.loads(done.stdout)["execution.batch"]["value"] == batch, options


def test_regress_does_not_judge_runs_that_were_made_before_the_baseline(mlbench, a_run, results):
    run = a_run(run_id="old", created=datetime.now(UTC) - timedelta(days=1))
    (results / "old").mkdir()
    (results / "old" / "record.json").write_text(run.text())
    save_baseline(results, "b", [run])
    assert "since baseline 'b'" in refusal(mlbench("regress", "--baseline", "b"))


def test_history_follows_only_the_runs_that_were_asked_for(mlbench, store):
    store("ours", [100.0, 101.0])
    store("theirs", [50.0, 51.0], backend="onnxruntime")
    for named in ((), ("ours", "theirs")):
        both = json.loads(mlbench("history", *named, "--json").stdout)
        assert len({each["name"] for each in both}) == 2
        (one,) = json.loads(mlbench("history", *named, "--backend", "onnxruntime", "--json").stdout)
        assert [point["value"] for point in one["points"]] != [100.0, 101.0]
        assert "onnxruntime" in one["name"]
    done = mlbench("history", "ours", "--backend", "onnxruntime")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


def test_a_baseline_holds_all_the_runs_that_are_named(mlbench, store):
    store("a", [100.0])
    store("b", [50.0])
    assert mlbench("baseline", "save", "both", "a", "b").stdout == "both: 2 runs\n"
    assert len(json.loads(mlbench("baseline", "show", "both", "--json").stdout)["records"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"submitter": "google"},
        {"accelerator": "TPU"},
        {"scenario": "Offline", "submitter": "AMD"},
    ],
)
def test_published_lists_what_the_options_ask_for(mlbench, options):
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    found = json.loads(mlbench("published", *given, "--json").stdout)
    assert [each["result_id"] for each in found] == [each.result_id for each in select_published(**options)]
    assert 0 < len(found) < 937


@pytest.fixture
def placed(a_run, environment, results):
    """Store a run of GPT-J that meets both accuracies, of official length, on one accelerator."""
    from mlbench.records.machine.accelerators import Accelerator

    more = {"memory_bytes": None, "power_limit_w": None, "max_clock_mhz": None, "ecc": None, "mig": None}
    device = Accelerator(name="A", driver="1", **more)
    target = a_run().accuracy.model_dump()["targets"][0] | {"score": "ROUGE1"}
    accuracy = a_run().accuracy.model_dump() | {"targets": [target, target | {"name": "99.9", "required": False}]}
    run = a_run(
        run_id="official-0001",
        workload="gptj",
        profile="full",
        tier="valid",
        runtime={},
        accuracy=accuracy,
        result=a_run().result.model_dump() | {"value": 2000.0, "unit": "tokens/s"},
        environment=environment.model_copy(update={"accelerators": [device]}),
    )
    (results / run.run_id).mkdir()
    (results / run.run_id / "record.json").write_text(run.text())


@pytest.mark.parametrize(("options", "variant"), [((), "99"), (("--variant", "99.9"), "99.9")])
def test_a_run_is_placed_for_the_accuracy_that_was_asked_for(mlbench, placed, options, variant):
    done = mlbench("published", "--place", "0001", *options, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["variant"] == variant
    assert {each["variant"] for each in (*found["better"], *found["worse"])} == {variant}


@pytest.mark.parametrize(("passes", "status"), [((True, True), 0), ((True, False), 1), ((False, False), 1)])
def test_a_backend_that_fails_a_check_fails_the_command(mlbench, monkeypatch, passes, status):
    findings = [
        Finding(check=f"check {number}", demand="d", reason="" if passed else "broken", hint="", seconds=0.1)
        for number, passed in enumerate(passes)
    ]
    monkeypatch.setattr("mlbench.conformance.isolated.examine", lambda request, log, on_finding, only=(): findings)
    done = mlbench("check", "null", "--json")
    assert done.exit_code == status
    assert [each["passed"] for each in json.loads(done.stdout)] == list(passes)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"accelerator_problem": "nvidia-smi: version mismatch"}, "accelerator unknown: nvidia-smi: version mismatch"),
        ({}, "accelerator none found"),
    ],
)
def test_the_doctor_tells_no_accelerator_from_one_whose_driver_fails(environment, changes, line):
    from mlbench.cli.doctor import describe_machine

    assert line in describe_machine(environment.model_copy(update={"accelerators": [], **changes}))


@pytest.mark.parametrize("spread", [1.01, 136.795])
def test_the_doctor_prints_no_spread_that_means_nothing(spread):
    from mlbench.cli.doctor import describe_noise

    (line,) = describe_noise(Noise(spread=spread, longest_pause_ns=40_000_000), 43.8)
    assert (
        "spread over 100 %, longest pause 40.0 ms, load average 43.80: busy: other processes use the processors" in line
    )


@pytest.mark.parametrize(("spread", "word"), [(0.01, "quiet"), (0.3, "noisy"), (1.0, "noisy")])
def test_the_doctor_says_whether_the_machine_is_quiet(spread, word):
    from mlbench.cli.doctor import describe_noise

    (line,) = describe_noise(Noise(spread=spread, longest_pause_ns=1_500_000), 0.25)
    assert f"spread {spread:.1%}, longest pause 1.5 ms, load average 0.25: {word}" in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["resnet50", "--backend", "null"],
            "2 of 4 runs are stored; to make the others, repeat the command with --scenario MultiStream "
            "--scenario Server.",
        ),
        (
            ["resnet50", "3d-unet", "--backend", "null", "--scenario", "Offline", "--scenario", "SingleStream"],
            "2 of 4 runs are stored; to make the others, repeat the command with 3d-unet alone.",
        ),
        (
            ["resnet50", "3d-unet", "--backend", "null"],
            "2 of 6 runs are stored; not made: resnet50 null MultiStream, resnet50 null Server, 3d-unet null Offline, "
            "3d-unet null SingleStream.",
        ),
    ],
)
def test_runs_that_were_made_before_an_interrupt_are_printed_with_how_to_go_on(mlbench, made, monkeypatch, words, said):
    note = run_maker.run_benchmark

    def press_in_the_third(*request, **how):
        if len(made) == 2:
            raise KeyboardInterrupt
        return note(*request, **how)

    monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", press_in_the_third)
    done = mlbench("run", *words)
    assert done.exit_code == 130
    assert done.stdout.count(" samples/s ") == 2
    assert said in done.stderr


def test_a_quiet_command_prints_the_table_alone(mlbench, made):
    done = mlbench("run", "resnet50", "--backend", "null", "--quiet")
    assert (done.stderr, done.stdout.count(" samples/s ")) == ("", 4)


def test_options_that_are_not_given_have_the_defaults_of_the_settings_file(mlbench, made, results, monkeypatch):
    (results.parent / "own.toml").write_text('[defaults]\nbackend = "null"\ntier = "dev"\n')
    monkeypatch.setenv("MLBENCH_SETTINGS", str(results.parent / "own.toml"))
    records = []
    monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", lambda request, *others, **how: records.append(request))
    assert mlbench("run", "resnet50", "--scenario", "Offline").exit_code == 1
    assert mlbench("run", "resnet50", "--scenario", "Offline", "--backend", "onnxruntime", "--tier", "smoke")
    assert [(each.backend, str(each.tier)) for each in records] == [("null", "dev"), ("onnxruntime", "smoke")]
    assert "default: dev" in mlbench("run", "--help").stdout
    assert mlbench("list").exit_code == 0


@pytest.fixture
def write_defaults(results, monkeypatch):
    """Write the table ``[defaults]`` of the settings file, and return the file."""

    def write(text):
        file = results.parent / "own.toml"
        file.write_text(f"[defaults]\n{text}\n")
        monkeypatch.setenv("MLBENCH_SETTINGS", str(file))
        return file

    return write


@pytest.mark.thorough("command line", but=["compare"])
@pytest.mark.parametrize("command", ["compare", "regress"])
def test_a_default_margin_decides_a_comparison_unless_one_is_given(mlbench, store, results, write_defaults, command):
    store("before", [100.0, 101.0, 99.0, 100.0, 100.5], day=1)
    store("after", [80.0, 81.0, 79.0, 80.0, 80.5], day=1)
    mlbench("baseline", "save", "before", "before")
    words = ["compare", "before", "after"] if command == "compare" else ["regress", "after", "--baseline", "before"]
    margins = "Changes counted as the same: of a speed less than {}, of a score less than {}"
    assert margins.format("5%", "0.5%") in " ".join(mlbench(*words).stdout.split())
    write_defaults("margin = 0.3\naccuracy-margin = 0.02")
    assert margins.format("30%", "2.0%") in " ".join(mlbench(*words).stdout.split())
    assert margins.format("10%", "2.0%") in " ".join(mlbench(*words, "--margin", "0.1").stdout.split())


def test_a_default_backend_makes_the_missing_runs_of_a_submission(mlbench, results, write_defaults):
    write_defaults('backend = "null"')
    suite = results.parent / "missing.toml"
    assert mlbench("submit", "plan", "--category", "edge", "-o", suite).exit_code == 1
    assert set(re.findall("^backend = (.*)$", suite.read_text(), re.MULTILINE)) == {'"null"'}


@pytest.mark.parametrize(
    "words", [["run", "--help"], ["help", "run"], ["submit", "plan", "--help"], ["compare", "--help"]]
)
def test_an_unknown_name_in_defaults_leaves_the_help_readable(mlbench, write_defaults, words):
    file = write_defaults('tire = "dev"')
    done = mlbench(*words)
    assert (done.exit_code, done.stderr.count("\n")) == (0, 1)
    assert done.stdout.startswith("Usage: ")
    assert done.stderr.startswith(f"Warning: {file}: [defaults] has an unknown name 'tire'.")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('tire = "dev"', "[defaults] has an unknown name 'tire'. Use backend, tier, precision, round, margin"),
        ("tier = 3", "tier in [defaults] is 3. It has lines such as"),
        ("margin = true", "margin in [defaults] is True. It has lines such as"),
        ('tier = "long"', "'long' is not one of 'smoke', 'dev', 'valid'"),
    ],
)
def test_a_wrong_default_is_one_line(mlbench, write_defaults, text, complaint):
    file = write_defaults(text)
    done = mlbench("run", "resnet50")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert complaint in done.stderr
    assert str(file) in done.stderr or "Invalid value for '--tier'" in done.stderr
