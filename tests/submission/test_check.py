"""Whole trees: one that the official checker accepts, and what becomes of it by one change at a time."""

import json
import os
import shutil
from pathlib import Path

import pytest
from invoking import invoke
from tree_changes import (
    CHAT,
    CHAT_OFFLINE,
    DETAIL,
    IMAGES,
    MULTI,
    RUN,
    STREAM,
    VISION,
    accuracy,
    append,
    audit,
    code_by_name,
    copy,
    describe,
    edit,
    large,
    link,
    log_of,
    lost,
    remove,
    rename,
    rules,
    runs,
    unlike,
)
from whole_tree import DATACENTER, EDGE, TEST05, WholeTree, write

from mlbench.errors import UsageError
from mlbench.submission.checking.findings import Reaction
from mlbench.submission.checking.whole_tree import check_tree

SUMMARY = "mlperf_log_summary.txt"
TREES = Path(__file__).parents[1] / "data" / "submission"


def test_a_tree_of_all_44_entries_is_accepted(tmp_path):
    WholeTree(tmp_path).add("fixture_dc", "datacenter", DATACENTER).add("fixture_edge", "edge", EDGE)
    check = check_tree(tmp_path)
    assert [each for each in check.findings if not each.is_note] == []
    assert (len(check.entries), check.accepted, check.accepted_officially, check.is_accepted) == (44, 44, 44, True)


def test_a_link_to_a_file_of_the_users_is_not_read(tree, tmp_path):
    """The name of a folder with code is printed where there is none of that name."""
    secret = write(tmp_path / "id_rsa", "secret-canary-line\n")
    shutil.rmtree(tree.submitter / "code/resnet50")
    (tree.submitter / "code/resnet50").symlink_to(secret)
    done = invoke("submit", "check", tree.root, "--notes")
    assert done.exit_code == 1
    assert "secret-canary" not in done.output
    assert f"code/resnet50: it leads out of its folder, to {secret.resolve()}" in done.output
    assert f"not followed: closed/{tree.submitter.name}/code/resnet50 (to {secret.resolve()})" in done.output


def test_checking_changes_nothing_in_a_tree(tree):
    def content():
        return {file: file.read_bytes() for file in tree.root.rglob("*") if file.is_file()}

    before = content()
    tree.log(*VISION, result_validity="INVALID")
    changed = content()
    assert lost(check_tree(tree.root)) == (1, 1)
    assert content() == changed != before


FOLDERS = [
    ("root_files", 7, 7, lambda t: write(t.root / "notes.txt", "x")),
    ("division_files", 7, 7, lambda t: write(t.root / "closed/notes.md", "x")),
    ("broken_links", 7, 7, lambda t: link(t, "/nowhere/at/all")),
    ("broken_links", 7, 7, lambda t: link(t, "README.md")),  # it works, but not from the root of the tree
    ("links_out", 7, 0, lambda t: link(t, __file__)),
    ("links_out", 7, 0, lambda t: link(t, Path(__file__).parent)),
    ("file_size", 7, 7, lambda t: large(t, (50 << 20) + 1)),
    ("dot_names", 7, 7, lambda t: write(t.submitter / "code/resnet50/.hidden", "x")),
    ("spaces_in_names", 7, 7, lambda t: write(t.submitter / "code/resnet50/a file", "x")),
    ("pycache", 7, 7, lambda t: write(t.submitter / "code/resnet50/__pycache__/a.pyc", "x")),
    ("empty_folders", 7, 7, lambda t: (t.submitter / "code/resnet50/empty").mkdir()),
]
NOT_EQUAL = "llama2-70b.*.sample_concatenate_permutation = 0\n"
MEASUREMENTS = [
    ("measurements", 1, 1, lambda t: remove(t.measurements(*VISION))),
    ("measurement_files", 1, 1, lambda t: remove(t.measurements(*VISION) / "README.md")),
    ("measurement_files", 1, 1, lambda t: write(t.measurements(*VISION) / "user.conf", "")),
    ("measurement_description", 1, 7, lambda t: remove(next(t.measurements(*VISION).glob("*.json")))),
    ("measurement_description", 1, 1, lambda t: next(t.measurements(*VISION).glob("*.json")).write_text("[]")),
    ("measurement_description", 1, 7, lambda t: next(t.measurements(*VISION).glob("*.json")).write_text("7")),
    ("measurement_fields", 1, 1, lambda t: next(t.measurements(*VISION).glob("*.json")).write_text("{}")),
    ("measurements", 1, 1, lambda t: t.result(*VISION).rename(t.result(*VISION).with_name("offline"))),
    ("code", 3, 3, lambda t: remove(t.submitter / "code/resnet50")),
    ("code", 3, 3, lambda t: (code_by_name(t), remove(t.submitter / "code/vision"))),
    ("configuration_lines", 1, 7, lambda t: edit(t.measurements(*CHAT) / "user.conf", "50", "50\nthis is odd")),
    ("configuration_lines", 1, 7, lambda t: append(t.measurements(*CHAT) / "mlperf.conf", "one.two = 3\n")),
    ("equal_issue_configuration", 1, 1, lambda t: append(t.measurements(*CHAT) / "user.conf", NOT_EQUAL)),
    ("equal_issue_configuration", 1, 1, lambda t: write(t.measurements(*CHAT) / "mlperf.conf", "# nothing\n")),
]
RUNS = [
    ("performance_log", 1, 1, lambda t: remove(t.result(*VISION) / "performance")),
    ("performance_files", 1, 1, lambda t: remove(t.result(*VISION) / "performance/run_1/mlperf_log_summary.txt")),
    ("performance_extra_files", 1, 1, lambda t: write(t.result(*VISION) / "performance/run_1/notes.txt", "x")),
    ("loadgen_result", 1, 1, lambda t: t.log(*VISION, result_validity="INVALID")),
    ("loadgen_result", 1, 0, lambda t: t.log(*CHAT, result_validity="INVALID")),
    ("loadgen_errors", 1, 0, lambda t: t.log(*VISION, num_errors=1)),
    ("early_stopping", 1, 0, lambda t: t.log(*STREAM, early_stopping_met=False)),
    ("min_duration", 1, 1, lambda t: t.log(*VISION, effective_min_duration_ms=599999)),
    ("min_queries", 1, 0, lambda t: t.log(*CHAT, effective_min_query_count=99)),
    ("offline_samples", 1, 1, lambda t: t.log(*VISION, effective_samples_per_query=24575)),
    ("samples_per_query", 1, 0, lambda t: t.log(*MULTI, effective_samples_per_query=4)),
    ("seeds", 1, 1, lambda t: t.log(*VISION, effective_qsl_rng_seed=1)),
    ("performance_sample_count", 1, 1, lambda t: t.log(*VISION, effective_performance_sample_count=1023)),
    ("token_latencies", 1, 1, lambda t: t.log(*CHAT, requested_use_token_latencies=False)),
    ("ttft", 1, 1, lambda t: t.log(*CHAT, **{"result_first_token_99.00_percentile_latency_ns": 2 * 10**9})),
    ("ttft", 1, 0, lambda t: t.log(*CHAT, requested_server_ttft_latency=3 * 10**9)),
    ("tpot", 1, 1, lambda t: t.log(*CHAT, **{"result_time_per_output_token_99.00_percentile_ns": 2 * 10**8})),
    ("equal_issue", 1, 0, lambda t: t.log(*CHAT, effective_sample_concatenate_permutation=False)),
    ("round", 1, 1, lambda t: t.log(*VISION, seeds=(6023615788873153749, 1, 2))),
    ("inferred", 1, 0, lambda t: t.log(*VISION, effective_scenario="SingleStream")),
    ("required_scenarios", 2, 2, lambda t: remove(t.result(*MULTI))),
    ("scenario_name", 3, 3, lambda t: rename(t, *VISION, "OFFLINE")),
    ("category", 1, 1, lambda t: copy(t, *VISION, "Server")),
]
SCORES = [
    ("accuracy_scores", 1, 1, lambda t: remove(accuracy(t, *VISION) / "accuracy.txt")),
    ("accuracy_scores", 1, 1, lambda t: edit(accuracy(t, *VISION) / "accuracy.txt", "accuracy=", "top1=")),
    ("accuracy_scores", 1, 1, lambda t: edit(accuracy(t, *VISION) / "accuracy.txt", "=76.456", "=-76.456")),
    ("accuracy.acc@99", 1, 1, lambda t: edit(accuracy(t, *VISION) / "accuracy.txt", "76.456", "7.6456e1")),
    ("accuracy.acc@99", 1, 1, lambda t: edit(accuracy(t, *VISION) / "accuracy.txt", "76.456", "75.695")),
    ("accuracy.acc@99", 1, 0, lambda t: append(accuracy(t, *VISION) / "accuracy.txt", "accuracy=70.0%\n")),
    ("accuracy.ROUGE1@99.9", 1, 1, lambda t: edit(accuracy(t, *CHAT) / "accuracy.txt", "44.4312", "44.3")),
    ("accuracy.CLIP_SCORE@range", 1, 1, lambda t: edit(accuracy(t, *IMAGES) / "accuracy.txt", "31.75", "31.9")),
    ("accuracy_log_hash", 1, 1, lambda t: edit(accuracy(t, *VISION) / "accuracy.txt", "hash=", "sha=")),
    ("accuracy_log_size", 1, 1, lambda t: append(accuracy(t, *VISION) / "mlperf_log_accuracy.json", "x" * 10240)),
    ("accuracy_log_digest", 1, 0, lambda t: append(accuracy(t, *VISION) / "mlperf_log_accuracy.json", " ")),
    ("accuracy_files", 1, 1, lambda t: remove(accuracy(t, *VISION) / "mlperf_log_accuracy.json")),
    ("accuracy_files", 1, 0, lambda t: remove(accuracy(t, *VISION) / "mlperf_log_summary.txt")),
    ("accuracy_extra_files", 1, 0, lambda t: write(accuracy(t, *VISION) / "notes.txt", "x")),
    ("accuracy_log_errors", 1, 1, lambda t: append(accuracy(t, *VISION) / "mlperf_log_detail.txt", ":::MLLOG {\n")),
    ("accuracy_log_end", 1, 0, lambda t: edit(accuracy(t, *VISION) / DETAIL, '"power_end"', '"power"')),
    ("accuracy_log_end", 1, 0, lambda t: append(accuracy(t, *VISION) / "mlperf_log_accuracy.json", "x")),
    ("accuracy_log_kind", 1, 0, lambda t: shutil.copy(t.result(*VISION) / RUN, accuracy(t, *VISION))),
    ("accuracy_log_kind", 1, 0, lambda t: shutil.copy(accuracy(t, *STREAM) / DETAIL, accuracy(t, *VISION))),
    ("images", 1, 1, lambda t: remove(accuracy(t, *IMAGES) / "images/4655.png")),
    ("images", 1, 1, lambda t: remove(accuracy(t, *IMAGES) / "images")),
    ("captions", 1, 0, lambda t: remove(accuracy(t, *IMAGES) / "images/captions.txt")),
]


COMPLIANCE = [
    ("compliance_tests", 1, 1, lambda t: remove(t.compliance(*STREAM))),
    ("compliance_tests", 1, 1, lambda t: remove(t.compliance(*STREAM) / "TEST04")),
    ("compliance_performance", 1, 1, lambda t: write(t.compliance(*STREAM) / "TEST05/verify_performance.txt", "FAIL")),
    ("compliance_files", 1, 1, lambda t: write(t.compliance(*STREAM) / "TEST05/performance/run_1/x", "x")),
    ("compliance_files", 1, 1, lambda t: remove(t.compliance(*STREAM) / f"TEST04/performance/run_1/{SUMMARY}")),
    ("compliance_files", 1, 1, lambda t: remove(t.compliance(*STREAM) / "TEST01/accuracy/accuracy.txt")),
    ("compliance_accuracy", 1, 1, lambda t: remove(t.compliance(*STREAM) / "TEST01/verify_accuracy.txt")),
    ("compliance_files", 1, 1, lambda t: write(t.compliance(*STREAM) / "TEST01/verify_accuracy.txt", "TEST FAIL")),
    ("compliance_accuracy", 1, 1, lambda t: unlike(t, 76.0, 75.0)),  # 1.33 %
    ("compliance_accuracy", 1, 1, lambda t: unlike(t, 76.0, 0)),
    ("accuracy_log_size", 1, 0, lambda t: append(log_of(t), "x" * 10240)),
    ("seeds", 1, 1, lambda t: audit(t, "TEST01", seeds=TEST05)),
    ("seeds", 1, 1, lambda t: shutil.copytree(*runs(t, "TEST01", "TEST05"), dirs_exist_ok=True)),
    ("loadgen_result", 1, 1, lambda t: audit(t, "TEST04", result_validity="INVALID")),
    ("audit_settings", 1, 0, lambda t: audit(t, "TEST04", effective_performance_issue_same=False)),
    ("audit_settings", 1, 0, lambda t: audit(t, "TEST01", effective_accuracy_log_rng_seed=0)),
    ("compliance_scenario", 1, 0, lambda t: audit(t, "TEST04", effective_scenario="MultiStream")),
    ("compliance_margin", 1, 0, lambda t: audit(t, "TEST01", early_stopping_latency_ss=22_000_000)),
    ("compliance_margin", 1, 0, lambda t: audit(t, "TEST04", early_stopping_latency_ss=18_000_000)),
    ("compliance_margin", 1, 0, lambda t: audit(t, "TEST05", early_stopping_latency_ss=21_000_000)),
    ("compliance_accuracy", 1, 1, lambda t: edit(t.compliance(*CHAT) / "TEST06/verify_accuracy.txt", "EOS", "End")),
    ("compliance_accuracy", 1, 1, lambda t: edit(t.compliance(*CHAT) / "TEST06/verify_accuracy.txt", "First", "A")),
    ("compliance_accuracy", 1, 1, lambda t: edit(t.compliance(*CHAT) / "TEST06/verify_accuracy.txt", "Sample", "A")),
    ("compliance_accuracy", 1, 1, lambda t: write(t.compliance(*CHAT) / "TEST06/verify_accuracy.txt", "")),
]


@pytest.mark.thorough("submission", first_of="rule", but=["broken_links-7-7-<lambda>1", "accuracy.acc@99-1-0-<lambda>"])
@pytest.mark.parametrize(
    ("rule", "refused", "officially", "change"), [*FOLDERS, *MEASUREMENTS, *RUNS, *SCORES, *COMPLIANCE]
)
def test_each_change_has_its_finding_and_costs_as_many_results_here_and_officially(
    tree, rule, refused, officially, change
):
    change(tree)
    check = check_tree(tree.root)
    assert rule in rules(check)
    assert lost(check) == (refused, officially)
    assert check.is_accepted is False


HARMLESS = {
    "a pdf at the root": lambda t: write(t.root / "letter.pdf", "x"),
    "a link to a folder": lambda t: link(t, t.submitter / "systems"),
    "a file of 50 MiB": lambda t: large(t, 50 << 20),
    "a second run": lambda t: shutil.copytree(
        t.result(*VISION) / "performance/run_1", t.result(*VISION) / "performance/run_2"
    ),
    "names in lower case": lambda t: rename(t, *VISION, "offline"),
    "zero as a text": lambda t: describe(t, accelerators_per_node="0"),
    "a submitter in another case": lambda t: describe(t, submitter="FIXTURE"),
    "a trace": lambda t: write(accuracy(t, *VISION) / "mlperf_log_trace.json", "x"),
    "results of another tool": lambda t: write(accuracy(t, *VISION) / "results.json", "x"),
    "replies, a trace and results beside the log": lambda t: [
        write(t.result(*VISION) / "performance/run_1" / name, "x")
        for name in ("mlperf_log_accuracy.json", "mlperf_log_trace.json", "results.json")
    ],
    "an image in another format": lambda t: (accuracy(t, *IMAGES) / "images/4655.png").rename(
        accuracy(t, *IMAGES) / "images/4655.jpg"
    ),
    "code by another name": code_by_name,
    "blanks and comments": lambda t: append(t.measurements(*CHAT) / "user.conf", "\n# this is odd\na . b . c = 1\n"),
    "equal issue in user.conf": lambda t: (
        write(t.measurements(*CHAT) / "mlperf.conf", "# nothing\n"),
        append(t.measurements(*CHAT) / "user.conf", "llama2-70b.*.sample_concatenate_permutation = 1\n"),
    ),
    "outputs that differ by less than 1 %": lambda t: unlike(t, 76.0, 75.5),
    "TEST01 within 10 %": lambda t: audit(t, "TEST01", early_stopping_latency_ss=21_900_000),
    "TEST04 slower": lambda t: audit(t, "TEST04", early_stopping_latency_ss=30_000_000),
    "TEST05 faster": lambda t: audit(t, "TEST05", early_stopping_latency_ss=10_000_000),
    "a first token that Offline has not": lambda t: edit(
        t.compliance(*CHAT_OFFLINE) / "TEST06/verify_accuracy.txt",
        "token check pass: True",
        "token check pass: Skipped",
    ),
}


FIVE = "input_data_types retraining starting_weights_filename weight_data_types weight_transformations"


@pytest.mark.thorough("submission", but=FIVE.split()[:1])
@pytest.mark.parametrize("name", FIVE.split())
def test_each_of_five_fields_of_an_implementation_must_say_something(tree, name):
    (file,) = tree.measurements(*VISION).glob("*.json")
    whole = json.loads(file.read_text())
    for fields in (whole | {name: ""}, {key: value for key, value in whole.items() if key != name}):
        file.write_text(json.dumps(fields))
        check = check_tree(tree.root)
        assert (rules(check), lost(check)) == ({"measurement_fields"}, (1, 1))


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_is_allowed_is_accepted(tree, change):
    change(tree)
    check = check_tree(tree.root)
    assert rules(check) == set()
    assert lost(check) == (0, 0)


@pytest.mark.parametrize(
    ("division", "model", "is_strict"),
    [("closed", "3d-unet-99.9", False), ("closed", "3d-unet-99", True), ("network", "3d-unet-99", False)],
)
def test_lines_that_loadgen_cannot_read_are_asked_of_three_closed_models(tmp_path, division, model, is_strict):
    tree = WholeTree(tmp_path, division).add("dc", "datacenter", {model: DATACENTER[model]})
    append(tree.measurements("dc", model, "Offline") / "user.conf", "this is odd\n")
    assert ("configuration_lines" in rules(check_tree(tmp_path))) is is_strict


def test_scores_of_unlike_outputs_may_be_a_tenth_as_far_apart_for_99_9(tmp_path):
    models = {"bert-99": ("Server", "Offline"), "bert-99.9": ("Server", "Offline")}
    tree = WholeTree(tmp_path).add("dc", "datacenter", models)
    for model in models:
        folder = tree.compliance("dc", model, "Offline") / "TEST01"
        write(folder / "verify_accuracy.txt", "TEST FAIL\n")
        for name, f1 in (("baseline", 90.9), ("compliance", 90.7)):  # 0.22 %
            write(folder / f"accuracy/{name}_accuracy.txt", f'{{"exact_match": 83.7, "f1": {f1}}}\n')
    check = check_tree(tmp_path)
    assert [each.entry.model for each in check.entries if not each.is_accepted] == ["bert-99.9"]
    assert lost(check) == (1, 1)


def test_what_no_checker_asks_is_a_note_and_costs_nothing(tree):
    (tree.submitter / "calibration.md").unlink()
    (tree.measurements(*VISION) / "calibration_process.adoc").unlink()
    describe(tree, favourite_colour="blue", system_name='the "fast" one')
    write(tree.root / "other/notes.txt", "x")
    (tree.root / "closed/Empty/systems").mkdir(parents=True)
    check = check_tree(tree.root)
    assert check.is_accepted
    assert {each.rule for each in check.findings} == {
        "calibration_document",
        "calibration_process",
        "system_unknown_fields",
        "system_quotes",
        "division_name",
        "submitter_results",
    }


def test_the_open_division_needs_no_accuracy_no_tests_and_no_scenarios(tmp_path):
    tree = WholeTree(tmp_path, "open").add("fixture_edge", "edge", {"resnet50": ("Offline",)})
    edit(accuracy(tree, *VISION) / "accuracy.txt", "76.456", "40.0")
    edit(accuracy(tree, *VISION) / "accuracy.txt", "hash=", "sha=")
    append(accuracy(tree, *VISION) / "mlperf_log_accuracy.json", "x" * 20_000)
    check = check_tree(tmp_path)
    assert rules(check) == set()
    assert {each.rule for each in check.findings} == {"accuracy.acc@99", "accuracy_log_hash", "accuracy_log_size"}
    assert lost(check) == (0, 0)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("category", lambda t: describe(t, system_type="datacenter")),
        ("accuracy_scores", lambda t: remove(t.result("fixture_edge", "3d-unet-99", "SingleStream") / "accuracy")),
        ("seeds", lambda t: t.log("fixture_edge", "3d-unet-99", "SingleStream", effective_qsl_rng_seed=1)),
        ("performance_log", lambda t: renamed_model(t, "a-model-of-ours")),
    ],
)
def test_the_rest_it_needs(tmp_path, rule, change):
    models = {"3d-unet-99": ("SingleStream",)}
    tree = WholeTree(tmp_path, "open").add("fixture_edge", "edge", models)
    if rule == "category":
        tree = WholeTree(tmp_path, "open").add("fixture_edge", "edge", {"llama2-70b-99": ("Offline",)})
        expected = {"category"}
    else:
        change(tree)
        expected = {rule}
    assert expected <= rules(check_tree(tmp_path))


def renamed_model(tree, name):
    for folder in ("results", "measurements"):
        (tree.submitter / folder / "fixture_edge/3d-unet-99").rename(tree.submitter / folder / "fixture_edge" / name)


def test_a_model_that_v41_has_not_is_refused_in_closed(tree):
    folder = tree.submitter / "results/fixture_edge"
    (folder / "resnet50").rename(folder / "alexnet")
    check = check_tree(tree.root)
    assert lost(check) == (3, 3)
    assert "v4.1 has no model 'alexnet'." in {each.message for each in check.findings}


def test_a_name_that_holds_a_tests_name_is_refused(tmp_path):
    WholeTree(tmp_path).add("edge_TEST05", "edge", {"resnet50": EDGE["resnet50"]})
    check = check_tree(tmp_path)
    assert rules(check) == {"test_names"}
    assert lost(check) == (3, 3)


def test_published_results_lack_nothing_but_the_files_that_were_left_out_here():
    check = check_tree(TREES / "v4.1")
    left_out = {"measurement_files", "code", "compliance_tests", "accuracy_log_digest"}
    assert rules(check) == left_out
    assert {each.path.rpartition("/")[2] for each in check.findings if each.rule == "measurement_files"} == {
        "README.md"
    }
    assert {each.rule for each in check.findings if each.official is Reaction.CRASHES} == set()


def test_a_tree_of_a_round_without_rules_is_refused_by_its_seeds_and_not_by_what_others_ask(older):
    check = check_tree(older)
    assert [(each.rule, each.is_note) for each in check.findings] == [("round", False)]
    assert lost(check) == (2, 2)
    done = invoke("submit", "check", older, "--notes")
    assert done.exit_code == 1
    assert done.stdout + done.stderr == (
        "It is a tree of round v4.0 by the seeds in 2 of 2 logs; mlbench judges by the rules of v4.1, v5.0, v5.1, "
        "v6.0, v6.1 only: all 2 results are refused.\n"
    )


def test_a_result_of_another_round_in_a_tree_of_v4_1_is_refused_alone(tree):
    tree.log(*VISION, seeds=(6023615788873153749, 1, 2))
    check = check_tree(tree.root)
    assert [each.loses for each in check.findings if each.rule == "round"] == [
        "closed/Fixture/results/fixture_edge/resnet50/Offline"
    ]
    assert len(check.entries) - check.accepted == 1


@pytest.mark.parametrize("path", ["nowhere", "a_file", "empty"])
def test_what_is_no_tree_is_said_in_one_line(tmp_path, path):
    (tmp_path / "a_file").write_text("x")
    (tmp_path / "empty").mkdir()
    done = invoke("submit", "check", tmp_path / path)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    with pytest.raises(UsageError):
        check_tree(tmp_path / path)


def test_the_command_prints_each_result_each_finding_and_both_verdicts(tree):
    tree.log(*CHAT, result_validity="INVALID")
    describe(tree, cooling="")
    done = invoke("submit", "check", tree.root)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].endswith("[official checker: refuses] It costs 3 results.")
    assert "system_empty_fields: closed/Fixture/systems/fixture_edge.json: " in lines[0]
    refused = "closed/Fixture/results/fixture_dc/llama2-70b-99.9/Server: 2,500 tokens/s"
    place = lines.index(f"REFUSED  {refused} (the official checker accepts it)")
    assert lines[place + 1].startswith("  loadgen_result: ")
    assert "INVALID, limit VALID" in lines[place + 1]
    assert lines[-1] == "3 of 7 results accepted; the official checker v4.1 would accept 4."


def test_the_command_prints_notes_when_asked_and_json(tree):
    (tree.submitter / "calibration.md").unlink()
    done = invoke("submit", "check", tree.root)
    assert (done.exit_code, done.stderr) == (0, "1 note that cost no result: --notes prints them.\n")
    done = invoke("submit", "check", tree.root, "--notes")
    assert done.stdout.splitlines()[-2].startswith("note: calibration_document: closed/Fixture: ")
    found = json.loads(invoke("submit", "check", tree.root, "--json").stdout)
    assert (found["is_accepted"], len(found["results"])) == (True, 7)
    assert [each["rule"] for each in found["findings"]] == ["calibration_document"]


def test_a_folder_that_cannot_be_read_is_said(tree):
    folder = tree.submitter / "code/resnet50"
    folder.chmod(0)
    try:
        if os.access(folder, os.R_OK):
            pytest.skip("this user may read everything")
        with pytest.raises(UsageError, match="cannot be read"):
            check_tree(tree.root)
    finally:
        folder.chmod(0o755)
