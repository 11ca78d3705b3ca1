"""Asking another installation for a run: the command line it gets, read back by the real one; the order of turns."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench import MlbenchError, UsageError
from mlbench.cli.run import command as run_command
from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, resolve
from mlbench.records.origin_record import EntryRecord
from mlbench.running.turns import FOLDER, Command, Maker, arguments_of, measure_in_turns, request_like, tags_of_turns


def settings(**layers):
    values = {"execution.batch": 8, "backend.largest": {"rows": 4, "words": 2}, "load.target_qps": 2.5}
    return {key: {"value": values[key], "layer": layer} for key, layer in layers.items()}


@pytest.fixture
def a_chosen_run(a_run):
    layers = {"execution.batch": "suite", "backend.largest": "command line", "load.target_qps": "workload resnet50"}
    return a_run(tag="nightly", precision="bf16", tier="dev", settings=settings(**layers))


def test_a_request_is_for_the_same_run_into_a_hidden_folder(a_chosen_run, tmp_path):
    request = request_like(a_chosen_run, tmp_path)
    kind = (request.workload, request.backend, request.scenario, request.precision, request.tier, request.tag)
    assert kind == ("resnet50", "pytorch", "Offline", "bf16", "dev", "nightly")
    assert request.overrides == {"execution.batch": "8", "backend.largest": "rows=4,words=2"}
    assert (request.results, request.wants_accuracy) == (tmp_path / FOLDER, False)
    assert FOLDER.startswith(".")


def test_the_command_line_of_a_request_says_all_of_it(a_chosen_run, tmp_path):
    request = request_like(a_chosen_run, tmp_path)
    first, *arguments = arguments_of(request)
    parsed = run_command.make_context("run", arguments).params
    assert first == "run"
    assert (parsed["workloads"], parsed["backends"], parsed["scenarios"]) == (("resnet50",), ("pytorch",), ("Offline",))
    assert (parsed["precisions"], parsed["tier"], parsed["profile"]) == (("bf16",), "dev", "mini")
    assert (parsed["weights"], parsed["tag"], parsed["results"]) == ("trained", "nightly", tmp_path / FOLDER)
    assert (parsed["wants_accuracy"], parsed["overrides"]) == (False, request.overrides)


def test_a_run_for_an_entry_of_another_round_is_repeated_for_that(a_run, tmp_path):
    entry = EntryRecord(model="bert-99.9", variant="99.9", category="edge", division="open")
    record = a_run(workload="bert", round="v5.1", entry=entry)
    request = request_like(record, tmp_path)
    _, *arguments = arguments_of(request)
    parsed = run_command.make_context("run", arguments).params
    assert (request.round, parsed["round"]) == ("v5.1", "v5.1")
    assert (parsed["variant"], parsed["category"], parsed["division"]) == ("99.9", "edge", "open")


@pytest.mark.parametrize("value", [None, [1, 2]])
def test_a_setting_that_no_command_line_can_say_is_refused(a_run, tmp_path, value):
    record = a_run(settings={"execution.batch": {"value": value, "layer": "suite"}})
    with pytest.raises(UsageError, match=r"execution\.batch"):
        request_like(record, tmp_path)


def test_turns_are_a_b_b_a(a_run, tmp_path):
    made = []

    def maker(side):
        def run(request):
            made.append(f"{side}{request.repeat}")
            return replace_run(side, request)

        return Maker(request=request_like(a_run(), tmp_path), run=run)

    def replace_run(side, request):
        return a_run(run_id=f"{side}{request.repeat}")

    sides = measure_in_turns(maker("A"), maker("B"), 4)
    assert made == ["A1", "B1", "B2", "A2", "A3", "B3", "B4", "A4"]
    assert [run.run_id for run in sides.base] == ["A1", "A2", "A3", "A4"]
    assert [run.run_id for run in sides.new] == ["B1", "B2", "B3", "B4"]


@pytest.mark.parametrize("is_counted", [True, False])
def test_the_second_run_of_a_pair_has_the_first_beside_it_where_that_was_made_here(a_run, tmp_path, is_counted):
    """Without a processor time the first run's engine cannot be counted here, and has no turn."""
    made = []

    def maker(side):
        def run(request):
            made.append((side, request.repeat, request.partner and Path(request.partner.folder).name))
            counted = {"ns": 2e5, "unit": "sample", "covers": "all", "reference": "scrypt", "reference_ns": 2e6}
            counted |= {"relative_ns": 2e5, "samples": 8, "rounds": 25}
            return a_run(run_id=f"{side}{request.repeat}", processor_time=counted if is_counted else None)

        asked = RunRequest(workload="resnet50", backend="onnxruntime", scenario="Offline", results=tmp_path)
        return Maker(request=resolve(asked, Plugins.discover()), run=run)

    measure_in_turns(maker("A"), maker("B"), 2)
    partners = ("A1", "B2") if is_counted else (None, None)
    assert made == [("A", 1, None), ("B", 1, partners[0]), ("B", 2, None), ("A", 2, partners[1])]


@pytest.fixture
def interrupted(a_run, tmp_path):
    """Return a function that asks about two interleaved runs until it is interrupted, and what was made."""

    def ask(new="new", runs=100, command="old/bin/mlbench", pairs=4):
        made = []

        def run(request):
            if len(made) == runs:
                raise KeyboardInterrupt
            _, _, side, pair = request.tag.split("-")
            made.append(f"{side}{pair}")
            number = len(list((tmp_path / FOLDER).iterdir())) if (tmp_path / FOLDER).exists() else 0
            repeat = request.repeat if side == "new" else 1  # another installation's first and only run of its command
            record = a_run(run_id=f"20261101T0000{number:02d}", tag=request.tag, repeat=repeat)
            folder = request.results / record.run_id
            folder.mkdir(parents=True)
            (folder / "record.json").write_text(record.text())
            return record

        records = a_run(run_id="base"), a_run(run_id=new)
        tags = tags_of_turns(command, *records)
        makers = [
            Maker(request=replace(request_like(record, tmp_path), tag=tag), run=run)
            for record, tag in zip(records, tags, strict=True)
        ]
        try:
            return made, measure_in_turns(*makers, pairs)
        except KeyboardInterrupt:
            return made, None

    return ask


def test_an_interrupted_command_goes_on_where_it_was(interrupted):
    assert interrupted(runs=5) == (["base1", "new1", "new2", "base2", "base3"], None)
    made, sides = interrupted()
    assert made == ["base3", "new3", "new4", "base4"]  # half a pair is none: its runs are not neighbours
    assert [[run.tag.split("-")[2:] for run in side] for side in (sides.base, sides.new)] == [
        [[side, str(number)] for number in (1, 2, 3, 4)] for side in ("base", "new")
    ]
    assert interrupted()[0] == []
    assert interrupted(pairs=5)[0] == ["base5", "new5"]


@pytest.mark.parametrize("other", [{"new": "another"}, {"command": "older/bin/mlbench"}])
def test_another_question_makes_its_own_runs(interrupted, other):
    interrupted()
    assert len(interrupted(**other)[0]) == 8


@pytest.mark.parametrize("text", ["", "no/such/mlbench", "'open"])
def test_what_is_no_program_is_refused_before_anything_runs(text):
    with pytest.raises(UsageError):
        Command(text)


def test_a_command_that_leaves_no_run_is_named_with_its_last_words(a_run, tmp_path):
    request = replace(request_like(a_run(), tmp_path), results=tmp_path)
    script = tmp_path / "broken.py"
    script.write_text("import sys\nsys.exit('Error: unknown backend.')\n")
    with pytest.raises(MlbenchError, match=r"left 0 runs, not one \(status 1\): Error: unknown backend\."):
        Command(f"{sys.executable} {script}").run(request)
