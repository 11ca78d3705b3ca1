"""Results of official trees as runs: the number that LoadGen's summary prints, judged by the rules."""

import json
import re
import shutil

import pytest
from invoking import invoke, refusal

from mlbench import IncomparableRunsError, UsageError
from mlbench.comparison.compare import compare
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.records.published import place_of
from mlbench.records.run_record import read
from mlbench.records.store.query import ask
from mlbench.records.store.run_folder import runs_in
from mlbench.submission.importing import import_tree

from .conftest import IMPLEMENTATION, LOGS, SYSTEM, at_full_length


def printed(log, label):
    """Return a number that LoadGen's summary prints."""
    text = (LOGS / f"{log}.summary.txt").read_text()
    return float(re.search(rf"^(?: \* )?{re.escape(label)}\s*: (.+)$", text, flags=re.MULTILINE)[1])


@pytest.mark.parametrize(
    ("log", "scenario", "model", "label", "unit"),
    [
        ("offline", "Offline", "resnet50", "Samples per second", "samples/s"),
        ("server", "Server", "resnet50", "Completed samples per second", "samples/s"),
        ("single_stream", "SingleStream", "bert-99", "Early stopping 90.0th percentile estimate", "ns"),
        ("multi_stream", "multistream", "retinanet", "Early stopping 99.0th percentile estimate", "ns"),
        ("offline_inferred_tokens", "Offline", "gptj-99.9", "Tokens per second (inferred)", "tokens/s"),
        ("offline_tokens", "Offline", "llama2-70b-99", "Tokens per second", "tokens/s"),
        ("server_tokens", "Server", "mixtral-8x7b", "Completed tokens per second", "tokens/s"),
    ],
)
def test_the_result_is_the_official_metric_as_the_summary_prints_it(  # noqa: PLR0917 - one per column
    add, one, log, scenario, model, label, unit
):
    add(log, scenario, model)
    record = one()
    assert record.result.value == pytest.approx(printed(log, label), rel=1e-5)
    assert (record.result.unit, record.scenario.lower()) == (unit, scenario.lower())


def link_out(file, target):
    file.unlink()
    file.symlink_to(target)


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("performance/run_1/mlperf_log_summary.txt", 1),
        ("performance/run_1/mlperf_log_detail.txt", 0),
        ("accuracy/accuracy.txt", 1),
        ("accuracy/mlperf_log_detail.txt", 1),
    ],
)
def test_nothing_is_copied_from_outside_of_the_tree(add, root, results, name, imported):
    folder, secret = add("offline", "Offline"), root.with_name("id_rsa")
    secret.write_text((LOGS / "offline.detail.txt").read_text() + "secret-canary")
    link_out(folder / name, secret)
    done = invoke("import", root, "--results", results)
    assert (done.exit_code, len(runs_in(results))) == (1, imported)
    told = [line for line in done.output.splitlines() if str(secret) in line]
    assert told
    assert all(name.rpartition("/")[2] in line and "it leads out of its folder" in line for line in told)
    assert [each for each in results.rglob("*") if each.is_symlink() or (each.is_file() and secret_in(each))] == []


def secret_in(file):
    return b"secret-canary" in file.read_bytes()


@pytest.mark.parametrize(
    ("model", "workload", "variant"),
    [
        ("resnet50", "resnet50", "99"),
        ("resnet", "resnet50", "99"),
        ("bert-99.9", "bert", "99.9"),
        ("3d-unet-99", "3d-unet", "99"),
        ("stable-diffusion-xl", "stable-diffusion-xl", "range"),
        ("mixtral-8x7b", "mixtral-8x7b", "99"),
    ],
)
def test_a_model_folder_names_workload_and_variant(add, one, model, workload, variant):
    add("offline_tokens" if model.startswith("mixtral") else "offline", "Offline", model)
    record = one()
    assert (record.workload, record.imported.variant) == (workload, variant)


def test_an_open_submitter_may_have_names_of_its_own(add, root, one):
    add("offline", "Offline", "my-bert", division="open")
    (root / "open" / "Acme" / "model_mapping.json").write_text('{"my-bert": "bert-99"}')
    assert one().workload == "bert"


def test_what_the_submitter_says_is_kept_and_missing_facts_are_unknown(add, one):
    add("offline", "Offline")
    record = one()
    assert record.backend == "Acme/anvil_8"
    assert record.precision == "int8"
    assert record.imported.path == "closed/Acme/results/anvil_8/resnet50/Offline"
    assert record.imported.description == SYSTEM
    assert record.runtime.extra == {"framework": "AnvilRT 2.1", "other_software_stack": "driver 5.5"}
    environment = record.environment
    assert [each.name for each in environment.accelerators] == ["Anvil A1"] * 8  # two nodes of four
    assert (environment.cpu.model, environment.cpu.sockets, environment.cpu.cores) == ("AMD EPYC 9374F", 4, 128)
    assert (environment.cpu.threads, environment.allowance.threads, environment.cpu.is_virtual) == (None, None, None)
    assert (environment.memory_bytes, environment.kernel, environment.libraries) == (None, "unknown", {})
    assert (record.duration_ns, record.overhead_ns_per_sample, record.peak_memory_bytes) == (None, None, None)


def test_the_moment_is_the_logs_in_utc(add, one):
    add("offline", "Offline")
    (line,) = (line for line in (LOGS / "offline.detail.txt").read_text().splitlines() if '"power_begin"' in line)
    month, day, year, time = re.search(r'"value": "(\d+)-(\d+)-(\d+) ([\d:]+)\.', line).groups()
    assert one().created.isoformat() == f"{year}-{month}-{day}T{time}" + one_fraction(line) + "+00:00"


def one_fraction(line):
    return "." + re.search(r"\.(\d+)\"", line)[1] + "000"


def failed(record):
    return {rule.rule for rule in record.verdict.rules if rule.required and not rule.passed}


def test_a_short_run_breaks_the_official_rules_whatever_loadgen_says(add, one):
    add("offline", "Offline")
    assert "Result is : VALID" in (LOGS / "offline.summary.txt").read_text()
    record = one()
    assert failed(record) == {"min_duration", "offline_samples", "performance_sample_count"}
    assert not record.verdict.is_valid


def test_a_run_of_full_length_is_valid_and_accurate_but_never_conformant(add, one):
    add("server", "Server", "retinanet", accuracy="mAP=37.415%", edit=at_full_length)
    record = one()
    assert failed(record) == set()
    assert (record.verdict.is_valid, record.verdict.is_accurate, record.verdict.is_conformant) == (True, True, False)
    assert set(record.verdict.not_applied) == {"replies_sound", "replies_agree"}


@pytest.mark.parametrize(
    ("log", "scenario", "rules"),
    [
        ("server_overloaded", "Server", {"loadgen_result", "latency_limit", "early_stopping"}),
        ("server_too_few", "Server", {"loadgen_result", "early_stopping"}),
        ("offline_answered_twice", "Offline", {"loadgen_errors"}),
    ],
)
def test_what_loadgen_or_early_stopping_refuses_is_invalid(add, one, log, scenario, rules):
    add(log, scenario, "retinanet", edit=at_full_length)
    assert failed(one()) >= rules


ROUGE = "{{'rouge1': {}, 'rouge2': 22.1184, 'rougeL': 28.7592, 'rougeLsum': 42.1, 'tokens_per_sample': {}}}"


@pytest.mark.parametrize(
    ("model", "line", "scores", "is_accurate"),
    [
        ("resnet50", "accuracy=75.695%, good=37847, total=50000", {"acc": 75.695}, False),  # the limit is 75.6954
        ("resnet50", "accuracy=75.696%, good=37848, total=50000", {"acc": 75.696}, True),
        ("retinanet", "mAP=37.175%", {"mAP": 37.175}, True),
        ("bert-99", '{"exact_match": 82.0, "f1": 90.5}', {"F1": 90.5}, True),  # 89.965 suffices for 99 %,
        ("bert-99.9", '{"exact_match": 82.0, "f1": 90.5}', {"F1": 90.5}, False),  # 90.783 for 99.9 %
        ("dlrm-v2-99", "AUC=80.166%, accuracy=96.605%, good=1, total=2", {"AUC": 80.166}, True),
        ("3d-unet-99", "Accuracy: mean = 0.86112, kidney = 0.9346, tumor = 0.7877", {"DICE": 0.86112}, True),
        (
            "llama2-70b-99",
            ROUGE.format(44.5522, 293.5),
            {"ROUGE1": 44.5522, "ROUGE2": 22.1184, "ROUGEL": 28.7592, "TOKENS_PER_SAMPLE": 293.5},
            True,
        ),
        (
            "llama2-70b-99",
            ROUGE.format(44.5522, 324),
            {"ROUGE1": 44.5522, "ROUGE2": 22.1184, "ROUGEL": 28.7592, "TOKENS_PER_SAMPLE": 324},
            False,  # at most 323.895
        ),
        (
            "stable-diffusion-xl",
            "Accuracy Results: {'FID_SCORE': 23.79, 'CLIP_SCORE': 31.77}",
            {"FID_SCORE": 23.79, "CLIP_SCORE": 31.77},
            True,
        ),
    ],
)
def test_scores_are_those_printed_and_compared_with_the_variants_target(  # noqa: PLR0917 - one per column
    add, one, model, line, scores, is_accurate
):
    add(
        "offline_tokens" if model.startswith("llama") else "offline",
        "Offline",
        model,
        accuracy=f"some words before\n{line}",
    )
    record = one()
    assert record.accuracy.scores == scores
    assert record.accuracy.line == line
    assert (record.accuracy.is_met, record.verdict.is_accurate) == (is_accurate, is_accurate)


def test_the_logs_come_along(add, root, results):
    folder = add("offline", "Offline")
    import_tree(root, results)
    (run,) = runs_in(results)
    for name in ("performance/mlperf_log_detail.txt", "performance/mlperf_log_summary.txt", "accuracy/accuracy.txt"):
        source = folder / name.replace("performance/", "performance/run_1/")
        assert (run / name).read_bytes() == source.read_bytes()


def test_a_tree_imported_twice_is_there_once(add, root, results):
    add("offline", "Offline")
    add("server", "Server")
    assert len(import_tree(root, results).records) == 2
    again = import_tree(root, results)
    assert (again.records, again.known, len(runs_in(results))) == ([], 2, 2)


# what cannot be read


def test_what_cannot_be_read_is_listed_once_and_the_rest_imported(add, root, results):
    add("offline", "Offline", accuracy=None)
    add("server", "Server")
    shutil.rmtree(root / "closed/Acme/measurements/anvil_8/resnet50/Server")
    broken = add("single_stream", "SingleStream", edit=lambda text: text[: len(text) // 2].rsplit("\n", 1)[0])
    misplaced = add("offline", "MultiStream")
    strange = add("offline", "Offline", "alexnet")
    empty = root / "closed/Acme/results/anvil_8/bert-99/Offline"
    empty.mkdir(parents=True)
    (root / "closed/Acme/systems/anvil_8.json").write_text("{")
    outcome = import_tree(root, results)
    assert [record.scenario for record in outcome.records] == ["Offline", "Server"]
    found = {str(each.path.relative_to(root)): each.reason for each in outcome.unread}
    prefix = "closed/Acme/results/anvil_8"
    assert "is not JSON" in found.pop("closed/Acme/systems/anvil_8.json")
    assert "cannot be read" in found.pop("closed/Acme/measurements/anvil_8/resnet50/Server/anvil_8_Server.json")
    assert "cannot be read" in found.pop(f"{prefix}/resnet50/Offline/accuracy/accuracy.txt")
    assert "truncated" in found.pop(f"{broken.relative_to(root)}/performance/run_1/mlperf_log_detail.txt")
    assert "a log of Offline, in a folder of MultiStream" in found.pop(
        f"{misplaced.relative_to(root)}/performance/run_1/mlperf_log_detail.txt"
    )
    assert "v4.1 has no model 'alexnet'" in found.pop(f"{strange.relative_to(root)}")
    assert found.pop(str(empty.relative_to(root))) == "there is no performance/run_1/mlperf_log_detail.txt."
    assert found == {}
    assert not any(str(root) in each.reason for each in outcome.unread)


def test_scores_in_numpys_form_are_recognised(add, root, results):
    """The official script prints them so under NumPy 2, and its checker reads none."""
    line = ROUGE.format("np.float64(44.5522)", "np.float64(293.5)")
    add("offline_tokens", "Offline", "llama2-70b-99", accuracy=line)
    (unread,) = import_tree(root, results).unread
    assert "in NumPy 2's form, which the official checker cannot read: np.float64(44.5522) for" in unread.reason


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("accuracy=76.078%".encode("utf-16"), "it is text in UTF-16"),
        (b"version https://git-lfs.github.com/spec/v1\n", "contains no acc: it is a pointer of git-lfs"),
        (b"", "contains no acc: it is empty"),
    ],
)
def test_an_accuracy_file_that_is_none_is_named_for_what_it_is(add, root, results, content, said):
    folder = add("offline", "Offline")
    (folder / "accuracy/accuracy.txt").write_bytes(content)
    (unread,) = import_tree(root, results).unread
    assert said in unread.reason


@pytest.mark.parametrize("key", ["effective_min_duration_ms", "result_samples_per_second", "result_query_count"])
@pytest.mark.parametrize("value", ['"many"', "null", "[1]", '{"a": NaN}'])
def test_a_log_with_a_value_of_the_wrong_kind_is_listed(add, root, results, key, value):
    add("offline", "Offline", edit=lambda text: re.sub(rf'("key": "{key}", "value": )[^,]+', rf"\g<1>{value}", text))
    outcome = import_tree(root, results)
    assert outcome.records == []
    (unread,) = outcome.unread
    assert "a value is of the wrong kind" in unread.reason
    assert "\n" not in unread.reason


def test_a_result_without_accuracy_makes_no_claim_of_it(add, one):
    add("offline", "Offline", accuracy=None)
    record = one()
    assert (record.accuracy, record.verdict.is_accurate) == (None, None)
    assert "accuracy.txt" in record.verdict.not_applied["accuracy"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda root: root.write_text("a,b\n1,2\n"), "is a file"),
        (lambda root: None, "does not exist"),
        (lambda root: root.mkdir(), "no official results in"),
        (lambda root: (root / "closed").mkdir(parents=True), "no official results in"),
        (lambda root: (root / "closed/Acme/systems").mkdir(parents=True), "closed contains no <submitter>/results"),
    ],
    ids=["a CSV file", "nothing", "an empty folder", "no submitters", "no results"],
)
def test_what_is_no_tree_is_refused_in_one_line(root, results, make, told):
    make(root)
    assert told in refusal(invoke("import", root, "--results", results))
    assert not results.exists()


def test_one_folder_too_deep_is_said(add, root, results):
    add("offline", "Offline")
    with pytest.raises(UsageError, match="Name the folder that contains 'closed'"):
        import_tree(root / "closed", results)


# what an imported run is good for


def test_the_command_gives_imported_runs_the_tag_that_it_was_given(add, root, results):
    add("offline", "Offline")
    done = invoke("import", root, "--results", results, "--tag", "v4.1", "--json")
    assert [record["tag"] for record in json.loads(done.stdout)["imported"]] == ["v4.1"]


def test_the_command_prints_a_line_each_and_exits_1_when_something_is_unread(add, root, results):
    add("offline", "Offline")
    done = invoke("import", root, "--results", results, "--json")
    assert done.exit_code == 0, done.output
    (record,) = json.loads(done.stdout)["imported"]
    assert record["imported"]["submitter"] == "Acme"
    (root / "closed/Acme/results/anvil_8/resnet50/Server").mkdir()
    done = invoke("import", root, "--results", results)
    assert done.exit_code == 1
    assert (
        "not read: closed/Acme/results/anvil_8/resnet50/Server: there is no performance/run_1/mlperf_log_detail.txt."
        in done.stderr
    )
    assert "0 imported, 1 imported before, 1 not read" in done.stderr


def test_imported_runs_can_be_asked_for(add, root, results):
    add("offline", "Offline")
    import_tree(root, results, tag="v4.1")
    sql = "SELECT workload, tag, imported.submitter, accelerators, threads, duration_ns FROM runs"
    assert ask(results, sql).rows == (("resnet50", "v4.1", "Acme", 8, None, None),)


def test_two_systems_compare_across_what_differs_and_not_without_across(add, root, results):
    add("single_stream", "SingleStream", edit=at_full_length)
    slow = add("single_stream", "SingleStream", system="anvil_4", edit=at_full_length)
    detail = slow / "performance/run_1/mlperf_log_detail.txt"
    numbers = re.compile(r'("key": "(?:result_\S+_ns|early_stopping_latency_ss)", "value": )(\d+)')
    detail.write_text(numbers.sub(lambda found: f"{found[1]}{2 * int(found[2])}", detail.read_text()))
    import_tree(root, results)
    base, new = (
        [record for record in map(read, runs_in(results)) if record.imported.system == system]
        for system in ("anvil_8", "anvil_4")
    )
    with pytest.raises(IncomparableRunsError, match=r"--across backend --across hardware"):
        compare(base, new)
    (cell,) = compare(base, new, across=("backend", "hardware")).cells
    (judged,) = cell.speeds
    assert (judged.verdict, judged.effect.ratio) == (SpeedVerdict.CANNOT_TELL, pytest.approx(0.5, rel=1e-3))
    assert "one run cannot show noise" in judged.reason


def test_an_imported_run_is_shown_as_one_and_not_verified(add, root, results):
    add("offline", "Offline")
    import_tree(root, results)
    (run,) = runs_in(results)
    shown = invoke("show", run)
    assert shown.exit_code == 0, shown.output
    assert "imported  closed/Acme/results/anvil_8/resnet50/Offline" in shown.stdout
    assert "8 x Anvil A1" in shown.stdout
    assert "None" not in shown.stdout
    verified = invoke("verify", run)
    assert (verified.exit_code, "was imported" in verified.stderr) == (2, True)


@pytest.fixture(scope="module")
def own_runs(tmp_path_factory):
    """Run the four scenarios for real, each a moment long, and return the run folders by scenario."""
    folder = tmp_path_factory.mktemp("own")
    request = ["run", "resnet50", "--backend", "null", "--no-accuracy", "--set", "load.min_duration_ms=100"]
    invoke(*request, "--results", folder)
    return {read(run).scenario: run for run in runs_in(folder)}


@pytest.mark.thorough("submission")
def test_a_tree_of_own_runs_gives_their_results_again(add, root, results, own_runs):
    assert len(own_runs) == 4
    for scenario, run in own_runs.items():
        add(run / "performance", scenario)
    outcome = import_tree(root, results)
    assert outcome.unread == []
    for record in outcome.records:
        own = read(own_runs[record.scenario])
        assert record.result == own.result
        assert record.seeds == own.seeds
        assert record.loadgen_version == own.loadgen_version
        assert record.samples["issued"] == own.samples["issued"]
        assert abs((record.created - own.created).total_seconds()) < 60
        assert "min_duration" in failed(record)  # a tenth of a second is no ten minutes


def test_the_precision_is_unknown_where_no_file_names_it(add, root, one):
    add("offline", "Offline")
    (file,) = (root / "closed/Acme/measurements/anvil_8/resnet50/Offline").glob("*.json")
    file.write_text(json.dumps({**IMPLEMENTATION, "weight_data_types": ""}))
    assert one().precision == "unknown"


def test_an_imported_run_has_a_place_among_published_ones(add, one):
    add("server", "Server", "retinanet", accuracy="mAP=37.415%", edit=at_full_length)
    place = place_of(one())
    assert place.per_accelerator == pytest.approx(printed("server", "Completed samples per second") / 8, rel=1e-5)
    assert place.rank == place.of  # every published system with accelerators is faster than that
