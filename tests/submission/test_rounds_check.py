"""Trees of later rounds are checked: mlbench's verdict, and beside it that of the round's checker with its holes."""

import json
import shutil

import pytest
from invented_round import SEEDS, invent_round
from invoking import invoke
from test_rounds_import import TREES, edit

from mlbench.rules.official import round_named
from mlbench.submission.checking.whole_tree import check_tree
from mlbench.submission.importing import import_tree

DETAIL = "performance/run_1/mlperf_log_detail.txt"
H200 = "closed/Dell/results/XE7740_H200_NVL_141GBx8_TRT/llama2-70b-99"
GOOGLE = "closed/Google/results/H200-SXM-141GBx8_TRT/llama2-70b-99"


def copy_of(place, name, submitter):
    """Copy a submitter of a round's tree, to be changed."""
    shutil.copytree(TREES / name / "closed" / submitter, place / name / "closed" / submitter)
    return place / name


@pytest.fixture
def v6_0(tmp_path):
    """A tree of two results, Llama 2's Interactive and Offline, with the code that published trees have."""
    root = copy_of(tmp_path, "v6.0", "Dell")
    (root / "closed/Dell/src").mkdir()
    (root / "closed/Dell/src/README.md").write_text("code\n")
    return root


@pytest.fixture
def v5_1(tmp_path):
    """The same of the round before, which has code by model, and wants a document."""
    root = copy_of(tmp_path, "v5.1", "Google")
    (root / "closed/Google/code/llama2-70b-99").mkdir(parents=True)
    (root / "closed/Google/code/llama2-70b-99/README.md").write_text("code\n")
    (root / "closed/Google/calibration.md").write_text("fp8\n")
    return root


def verdicts(root):
    """Return mlbench's verdict and the checker's on each result, by scenario."""
    return {each.entry.scenario: (each.is_accepted, each.is_accepted_officially) for each in check_tree(root).entries}


def rules(root):
    return {each.rule for each in check_tree(root).findings if not each.is_note}


BOTH = {"Interactive": (True, True), "Offline": (True, True)}


@pytest.mark.parametrize("name", ["v5_1", "v6_0"])
def test_a_tree_of_a_later_round_is_accepted_by_both(name, request):
    root = request.getfixturevalue(name)
    assert [*map(str, [each for each in check_tree(root).findings if not each.is_note])] == []
    assert verdicts(root) == BOTH


@pytest.mark.parametrize(("name", "officially"), [("v5_1", False), ("v6_0", True)])
def test_invalid_is_refused_and_the_checker_of_v6_does_not_look(name, officially, request):
    root = request.getfixturevalue(name)
    folder = {"v5_1": GOOGLE, "v6_0": H200}[name]
    edit(root / folder / "Offline" / DETAIL, result_validity="INVALID")
    assert verdicts(root)["Offline"] == (False, officially)
    assert verdicts(root)["Interactive"] == (True, True)


@pytest.mark.parametrize(("name", "officially"), [("v5_1", False), ("v6_0", True)])
def test_interactive_has_its_own_limits_and_the_checker_of_v6_takes_servers(name, officially, request):
    root = request.getfixturevalue(name)
    folder = {"v5_1": GOOGLE, "v6_0": H200}[name]
    edit(root / folder / "Interactive" / DETAIL, **{"result_first_token_99.00_percentile_latency_ns": 1_500_000_000})
    assert verdicts(root)["Interactive"] == (False, officially)
    assert "ttft" in rules(root)


def test_interactive_over_servers_limit_is_refused_by_the_checker_of_v6_too(v6_0):
    edit(v6_0 / H200 / "Interactive" / DETAIL, **{"result_first_token_99.00_percentile_latency_ns": 2_100_000_000})
    assert verdicts(v6_0)["Interactive"] == (False, False)


@pytest.mark.parametrize(("name", "officially"), [("v5_1", False), ("v6_0", True)])
def test_equal_issue_is_read_in_the_log_and_not_at_all_by_the_checker_of_v6(name, officially, request):
    root = request.getfixturevalue(name)
    folder = {"v5_1": GOOGLE, "v6_0": H200}[name]
    edit(root / folder / "Offline" / DETAIL, effective_sample_concatenate_permutation=False)
    assert verdicts(root)["Offline"] == (False, officially)
    assert rules(root) == {"equal_issue"}


@pytest.mark.parametrize(("name", "officially"), [("v5_1", False), ("v6_0", True)])
def test_an_error_in_the_log_is_refused_and_the_checker_of_v6_does_not_look(name, officially, request):
    root = request.getfixturevalue(name)
    log = root / {"v5_1": GOOGLE, "v6_0": H200}[name] / "Offline" / DETAIL
    log.write_text(
        log.read_text() + ':::MLLOG {"key": "error_runtime", "value": "x", "metadata": {"is_error": true}}\n'
    )
    assert verdicts(root)["Offline"] == (False, officially)


@pytest.mark.parametrize("name", ["v5_1", "v6_0"])
def test_early_stopping_decides_in_the_checker_of_v6(name, request):
    root = request.getfixturevalue(name)
    edit(root / {"v5_1": GOOGLE, "v6_0": H200}[name] / "Interactive" / DETAIL, early_stopping_met=False)
    assert verdicts(root)["Interactive"] == (False, name == "v5_1")


@pytest.mark.parametrize(
    ("name", "key"), [("v5_1", "qsl_reported_total_count"), ("v6_0", "effective_accuracy_sample_count")]
)
def test_the_accuracy_test_covers_the_data_set(name, key, request):
    root = request.getfixturevalue(name)
    folder = root / {"v5_1": GOOGLE, "v6_0": H200}[name]
    edit(folder / "Offline/accuracy/mlperf_log_detail.txt", **{key: 24_000})
    assert verdicts(root)["Offline"] == (False, False)
    assert rules(root) == {"accuracy_samples"}


def describe(root, submitter, **fields):
    """Change the descriptions of a submitter's systems."""
    for file in (root / f"closed/{submitter}/systems").iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@pytest.mark.parametrize("name", ["v5_1", "v6_0"])
def test_a_wrong_category_ends_the_checker_of_v6_without_any_result(name, request):
    root = request.getfixturevalue(name)
    describe(root, {"v5_1": "Google", "v6_0": "Dell"}[name], system_type="edge")
    found = [each for each in check_tree(root).findings if each.rule == "category"]
    assert {str(each.official) for each in found} == {"refuses" if name == "v5_1" else "crashes"}
    assert set(verdicts(root).values()) == {(False, False)}


def test_offline_alone_lacks_server_or_interactive(v6_0):
    shutil.rmtree(v6_0 / H200 / "Interactive")
    (found,) = (each for each in check_tree(v6_0).findings if not each.is_note)
    assert found.message == "lacks the required Server or Interactive."


def test_interactive_alone_lacks_offline(v5_1):
    shutil.rmtree(v5_1 / GOOGLE / "Offline")
    (found,) = (each for each in check_tree(v5_1).findings if not each.is_note)
    assert found.message == "lacks the required Offline."


def test_names_and_sizes_are_left_to_a_script_in_v6(v6_0):
    (v6_0 / "closed/Dell/src/a b.txt").write_text("x")
    assert rules(v6_0) == {"spaces_in_names"}
    assert set(verdicts(v6_0).values()) == {(False, True)}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda root: shutil.rmtree(root / "closed/Dell/src"), "code"),
        (lambda root: (root / H200 / "Offline/measurements.json").unlink(), "measurement_description"),
        (lambda root: (root / H200 / "Offline/user.conf").unlink(), "measurement_files"),
        (lambda root: shutil.rmtree(root / H200 / "Offline/TEST06"), "compliance_tests"),
    ],
)
def test_the_files_of_v6_lie_beside_the_results(v6_0, change, rule):
    change(v6_0)
    assert rules(v6_0) == {rule}


def test_mlperf_conf_is_no_longer_required(v5_1):
    for file in v5_1.rglob("mlperf.conf"):
        file.unlink()
    assert verdicts(v5_1) == BOTH


def test_v5_1_wants_a_document_of_the_calibration_and_results_of_each_system(v5_1):
    (v5_1 / "closed/Google/calibration.md").unlink()
    assert set(verdicts(v5_1).values()) == {(False, False)}
    (v5_1 / "closed/Google/documentation").mkdir()
    (v5_1 / "closed/Google/documentation/calibration.md").write_text("fp8\n")
    assert verdicts(v5_1) == BOTH
    systems = v5_1 / "closed/Google/systems"
    shutil.copy(next(systems.iterdir()), systems / "idle.json")
    assert rules(v5_1) == {"idle_systems"}


def test_results_are_inferred_on_edge_systems_only(tmp_path):
    root = copy_of(tmp_path, "v6.0", "Lenovo")
    shutil.rmtree(root / "closed/Lenovo/results/SE455I_V3_TRT")
    assert "inferred" not in rules(root)
    describe(root, "Lenovo", system_type="datacenter,edge")
    assert "inferred" not in rules(root)
    describe(root, "Lenovo", system_type="datacenter")
    found = [each for each in check_tree(root).findings if each.rule == "inferred"]
    assert [each.loses.rpartition("/")[2] for each in found] == ["multistream", "offline"]
    assert {str(each.official) for each in found} == {"accepts"}


def test_a_copy_of_another_models_compliance_test_is_seen():
    """As published: 3D-UNet's TEST01 of a system is that of ResNet-50, and says TEST PASS."""
    found = check_tree(TREES / "v6.0").findings
    (wrong,) = (each for each in found if each.rule == "compliance_margin")
    assert wrong.path.endswith("3d-unet-99/Offline/TEST01/verify_performance.txt")
    assert str(wrong.official) == "accepts"


def test_a_result_of_another_round_in_a_tree_is_refused(v6_0):
    shutil.copytree(TREES / "v5.1/closed/Google", v6_0 / "closed/Google")
    shutil.rmtree(v6_0 / "closed/Google/results/H200-SXM-141GBx8_TRT/llama2-70b-99/Interactive")
    found = [each for each in check_tree(v6_0).findings if each.rule == "round"]
    assert [each.message for each in found] == ["its logs are of round v5.1 by their seeds, and the tree is of v6.0."]


def test_the_round_of_a_tree_can_be_asked_for(v6_0):
    checked = check_tree(v6_0, round_named("v5.1"))
    assert str(checked.round) == "v5.1"
    assert not any(each.is_accepted for each in checked.entries)
    done = invoke("submit", "check", v6_0, "--round", "v5.1")
    assert done.exit_code == 1
    assert "its logs are of round v6.0 by their seeds, and the tree is of v5.1." in done.stdout


def test_the_command_names_the_checker_of_the_round(v6_0):
    done = invoke("submit", "check", v6_0)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("2 of 2 results accepted; the official checker v6.0 would accept 2.\n")


def test_a_result_of_the_other_harness_is_left_out(v6_0):
    model = v6_0 / H200.replace("llama2-70b-99", "qwen3-vl-235b-a22b") / "Offline/performance"
    model.mkdir(parents=True)
    (model / "result_summary.json").write_text("{}")
    checked = check_tree(v6_0)
    assert [each.entry.model for each in checked.entries] == ["llama2-70b-99"] * 2
    (note,) = (each for each in checked.findings if each.rule == "endpoints")
    assert note.is_note


@pytest.fixture
def invented(v6_0, tmp_path, monkeypatch):
    """The tree of a round that is a file of the user's: one model fewer, another limit, seeds and layout of its own."""
    changes = (
        ("interactive_ttft_ms = 450", "interactive_ttft_ms = 250"),
        ('code = "src"', 'code = "sources"'),
        ("[workloads.yolo]", "[workloads.yolo99]"),
        ("[[workloads.yolo.targets]]", "[[workloads.yolo99.targets]]"),
    )
    invent_round(tmp_path, *changes)
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    seeds = {f"effective_{name}_rng_seed": seed for name, seed in SEEDS.items()}
    for log in v6_0.rglob("mlperf_log_detail.txt"):
        edit(log, **seeds)
    (v6_0 / "closed/Dell/src").rename(v6_0 / "closed/Dell/sources")
    return v6_0


def test_a_round_of_the_users_own_is_checked_without_a_line_of_python(invented):
    checked = check_tree(invented)
    assert str(checked.round) == "v9.9"
    assert verdicts(invented) == {"Interactive": (False, True), "Offline": (True, True)}
    (found,) = (each for each in checked.findings if not each.is_note)
    assert (found.rule, found.evidence.limit) == ("ttft", 250_000_000)


def test_a_result_of_a_round_of_the_users_own_is_imported(invented, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    records = import_tree(invented, tmp_path / "results").records
    assert {(each.round, each.scenario, each.verdict.is_valid) for each in records} == {
        ("v9.9", "Interactive", False),
        ("v9.9", "Offline", True),
    }


def test_a_model_without_a_row_is_a_note_that_the_checker_of_v6_0_ends(v6_0):
    folder = v6_0 / "closed/Dell/results/XE7740_H200_NVL_141GBx8_TRT/retinanet/Offline"
    published = "GATEOverflow_RTX4090x1-reference-gpu-pytorch_v2.7.1-cu126/retinanet/offline"
    shutil.copytree(TREES / "v5.1/closed/GATEOverflow/results" / published, folder)
    seeds = (2465351861681999779, 14276810075590677512, 3936089224930324775)
    keys = (f"effective_{key}_rng_seed" for key in ("qsl", "sample_index", "schedule"))
    edit(folder / DETAIL, **dict(zip(keys, seeds, strict=True)))
    (note,) = (each for each in check_tree(v6_0).findings if each.rule == "category_row")
    assert (note.is_note, str(note.official)) == (True, "crashes")
    assert verdicts(v6_0)["Interactive"] == (True, False)


def test_a_round_that_is_asked_for_is_that_of_logs_without_seeds(v6_0):
    for log in v6_0.rglob("mlperf_log_detail.txt"):
        log.write_text("".join(f"{line}\n" for line in log.read_text().splitlines() if "_rng_seed" not in line))
    checked = check_tree(v6_0, round_named("v6.0"))
    assert {str(each.entry.round) for each in checked.entries} == {"v6.0"}
    assert "another_round" not in {each.rule for each in checked.findings}
    assert {str(each.entry.round) for each in check_tree(v6_0).entries} == {"v4.1"}


def test_an_inference_that_fails_is_told_with_its_own_reason(tmp_path):
    root = copy_of(tmp_path, "v6.0", "Lenovo")
    folder = root / "closed/Lenovo/results/SE100/resnet50/offline"
    edit(folder / "performance/run_1/mlperf_log_detail.txt", result_qps_without_loadgen_overhead=-4)
    (found,) = (each for each in check_tree(root).findings if each.rule == "performance_log")
    assert "result_qps_without_loadgen_overhead" in found.message and "measure Offline" not in found.message
