"""What a tree says beside LoadGen's log: configuration, the accuracy folder, files that are missing, power."""

import json
import re

import pytest

from mlbench.records.store.run_folder import runs_in
from mlbench.submission.importing import import_tree

from .conftest import LOGS, at_full_length

ROUGE = "{'rouge1': 44.5, 'rouge2': 22.1, 'rougeL': 28.7, 'rougeLsum': 42.1, 'tokens_per_sample': 293.5}"


def rule_of(record, name):
    return next((rule for rule in record.verdict.rules if rule.rule == name), None)


# equal issue

KEY = "sample_concatenate_permutation"


def logging_equal_issue(value):
    """Return an edit of a log: what it says of equal issue, or that it says nothing."""

    def edit(text):
        lines = [line for line in text.splitlines() if f"effective_{KEY}" not in line]
        if value is not None:
            record = {"key": f"effective_{KEY}", "value": value, "metadata": {"is_error": False, "is_warning": False}}
            lines.insert(-1, f":::MLLOG {json.dumps(record)}")
        return "\n".join(lines) + "\n"

    return edit


@pytest.mark.parametrize(
    ("logged", "mlperf_conf", "user_conf", "passed"),
    [
        (None, f"llama2-70b.*.{KEY} = 1", "", True),
        (None, f"*.*.{KEY}=1", "", True),
        (None, f"*.Offline.{KEY} = 1", "", True),
        (None, "", f"llama2-70b.Offline.{KEY} = 1", True),
        (None, f"llama2-70b.*.{KEY} = 1", f"*.*.{KEY} = 0", False),  # user.conf goes first
        (None, f"llama2-70b.*.{KEY} = 0\n*.*.{KEY} = 1", "", False),  # the first line that fits counts
        (None, f"llama2-70b.*.{KEY} = yes\n*.*.{KEY} = 1", "", True),  # a line without a number does not
        (None, f"# llama2-70b.*.{KEY} = 1", "", None),
        (None, f"gptj.*.{KEY} = 1", "", None),
        (None, f"llama2-70b.Server.{KEY} = 1", "", None),
        (None, "some words\n=\nllama2-70b = 1", "a.b=c=d", None),
        (True, "", "", True),
        (False, f"llama2-70b.*.{KEY} = 1", "", False),  # what ran is not what was configured
        (True, f"llama2-70b.*.{KEY} = 0", "", False),
    ],
)
def test_equal_issue_is_what_configuration_and_log_say(  # noqa: PLR0917 - one per column
    add, root, one, logged, mlperf_conf, user_conf, passed
):
    add("offline_tokens", "Offline", "llama2-70b-99", accuracy=ROUGE, edit=logging_equal_issue(logged))
    folder = root / "closed/Acme/measurements/anvil_8/llama2-70b-99/Offline"
    (folder / "mlperf.conf").write_text(f"{mlperf_conf}\n")
    (folder / "user.conf").write_text(f"{user_conf}\n")
    record = one()
    rule = rule_of(record, "equal_issue")
    assert (rule and rule.passed) is passed
    assert ("equal_issue" in record.verdict.not_applied) is (passed is None)


def test_a_lower_case_scenario_folder_is_configured_like_any_other(add, root, one):
    add("offline_tokens", "offline", "llama2-70b-99", accuracy=ROUGE, edit=logging_equal_issue(None))
    folder = root / "closed/Acme/measurements/anvil_8/llama2-70b-99/offline"
    (folder / "mlperf.conf").write_text(f"llama2-70b.Offline.{KEY} = 1\n")
    assert rule_of(one(), "equal_issue").passed


def test_the_open_division_is_not_asked_for_equal_issue(add, one):
    add("offline_tokens", "Offline", "llama2-70b-99", division="open", edit=logging_equal_issue(False))
    record = one()
    assert rule_of(record, "equal_issue") is None
    assert "open division" in record.verdict.not_applied["equal_issue"]


def test_a_missing_configuration_is_listed_and_proves_nothing(add, root, results):
    add("offline_tokens", "Offline", "llama2-70b-99", accuracy=ROUGE, edit=logging_equal_issue(None))
    folder = root / "closed/Acme/measurements/anvil_8/llama2-70b-99/Offline"
    for name in ("mlperf.conf", "user.conf"):
        (folder / name).unlink()
    outcome = import_tree(root, results)
    assert [each.path.name for each in outcome.unread] == ["user.conf", "mlperf.conf"]
    (record,) = outcome.records
    assert "neither LoadGen's log nor user.conf nor mlperf.conf" in record.verdict.not_applied["equal_issue"]


# samples


def with_values(values):
    """Return an edit of a log that gives keys other values."""

    def edit(text):
        for key, value in values.items():
            text = re.sub(rf'("key": "{key}", "value": )[^,]+', rf"\g<1>{value}", text)
        return text

    return edit


def test_the_samples_that_fill_up_a_pass_are_counted(add, one):
    # a published result: 8 MI300X, Llama 2 70B, 99, Offline
    published = {
        "effective_samples_per_query": 52800,
        "generated_samples_per_query": 52800,
        "effective_performance_sample_count": 24576,
        "result_samples_per_second": 80.15,
        "result_max_latency_ns": 919874995640,
    }
    add("offline_tokens", "Offline", "llama2-70b-99", accuracy=ROUGE, edit=with_values(published))
    record = one()
    assert 80.15 * 919.874995640 == pytest.approx(3 * 24576, rel=1e-4)
    assert (record.samples["issued"], record.result.counts["samples_per_query"]) == (73728, 73728)


def test_a_query_that_was_not_filled_up_is_not_said_to_be(add, one):
    values = {
        "effective_samples_per_query": 52800,
        "generated_samples_per_query": 52800,
        "effective_performance_sample_count": 24576,
        "result_samples_per_second": 80.0,
        "result_max_latency_ns": 660_000_000_000,
    }
    add("offline_tokens", "Offline", "llama2-70b-99", division="open", accuracy=ROUGE, edit=with_values(values))
    assert one().samples["issued"] == 52800


def test_loadgens_own_count_of_a_filled_query_is_taken(add, one):
    add("offline_equal_issue", "Offline", "3d-unet-99", accuracy="Accuracy: mean = 0.8617, kidney = 0.9, tumor = 0.8")
    text = (LOGS / "offline_equal_issue.detail.txt").read_text()
    asked, sent = (
        int(re.search(rf'"{key}", "value": (\d+)', text)[1])
        for key in ("effective_samples_per_query", "generated_samples_per_query")
    )
    assert asked < sent
    assert one().samples["issued"] == sent


# the accuracy folder

GOOD, BAD = "accuracy=76.078%, good=38039, total=50000", "accuracy=70.000%, good=35000, total=50000"
HASH = f"hash={'0' * 64}"


@pytest.mark.parametrize(
    ("lines", "score", "is_accurate"),
    [
        ((GOOD, HASH), 76.078, True),
        ((HASH, GOOD), 76.078, True),
        ((GOOD, BAD, HASH), 70, False),
        ((BAD, GOOD, HASH), 70, False),
        ((GOOD, HASH, BAD), 70, False),  # where the official checker has stopped reading
        ((GOOD, HASH, GOOD.replace("76.078", "76.1")), 76.078, True),
        ((GOOD, GOOD.replace("76.078", "76.1"), HASH), 76.1, True),
        ((GOOD,), 76.078, False),
        ((GOOD, "hash="), 76.078, False),
        ((GOOD, f"see {HASH}"), 76.078, False),
        ((GOOD, f"{HASH} of the log"), 76.078, False),
    ],
)
def test_a_bad_score_or_a_missing_hash_is_seen(add, one, lines, score, is_accurate):
    folder = add("server", "Server", "resnet50", accuracy="")
    (folder / "accuracy/accuracy.txt").write_text("\n".join(lines) + "\n")
    record = one()
    assert record.accuracy.scores == {"acc": score}
    assert record.verdict.is_accurate is is_accurate
    assert rule_of(record, "accuracy_log_hash").passed is any(line == HASH for line in lines)


def test_a_score_above_its_upper_limit_is_not_made_good_by_a_later_one(add, one):
    folder = add("offline_tokens", "Offline", "llama2-70b-99", accuracy="")
    bad = ROUGE.replace("293.5", "330.0")
    (folder / "accuracy/accuracy.txt").write_text(f"{bad}\n{ROUGE}\n{HASH}\n")
    record = one()
    assert record.accuracy.scores["TOKENS_PER_SAMPLE"] == 330
    assert record.verdict.is_accurate is False


def test_an_error_in_the_log_of_the_accuracy_test_is_seen(add, one):
    folder = add("server", "Server", "retinanet", accuracy="mAP=37.415%", edit=at_full_length)
    log = folder / "accuracy/mlperf_log_detail.txt"
    error = {"key": "error_runtime", "value": "Ran out of memory.", "metadata": {"is_error": True}}
    log.write_text(log.read_text() + f":::MLLOG {json.dumps(error)}\n")
    record = one()
    rule = rule_of(record, "accuracy_log_errors")
    assert (rule.measured, rule.passed, "Ran out of memory." in rule.fix) == (1, False, True)
    assert (record.verdict.is_valid, record.verdict.is_accurate) == (True, False)


def test_a_broken_line_in_the_log_of_the_accuracy_test_is_an_error(add, one):
    folder = add("server", "Server", "retinanet", accuracy="mAP=37.415%")
    log = folder / "accuracy/mlperf_log_detail.txt"
    log.write_text(":::MLLOG {\n" + log.read_text())
    assert rule_of(one(), "accuracy_log_errors").measured == 1


@pytest.mark.parametrize("name", ["mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json"])
def test_a_missing_file_of_the_accuracy_test_is_seen(add, one, name):
    folder = add("server", "Server", "retinanet", accuracy="mAP=37.415%", edit=at_full_length)
    (folder / "accuracy" / name).unlink()
    record = one()
    assert rule_of(record, "accuracy_files").fix == f"Add to the accuracy folder: {name}."
    assert (record.verdict.is_valid, record.verdict.is_accurate) == (True, False)


def test_a_missing_summary_of_the_performance_test_is_seen(add, one):
    folder = add("server", "Server", "retinanet", accuracy="mAP=37.415%", edit=at_full_length)
    (folder / "performance/run_1/mlperf_log_summary.txt").unlink()
    record = one()
    assert rule_of(record, "performance_files").fix == "Add to performance/run_1: mlperf_log_summary.txt."
    assert record.verdict.is_valid is False


# power


def reading(time, watts):
    return f"Time,{time},Watts,{watts},Volts,119.6,Amps,1.7,PF,0.88,Mark,2024-07-23_12-54-21_testing"


@pytest.fixture
def metered(add):
    """Add a result of 20 s whose power was metered: 9 W and 11 W count, the others do not."""

    def metered(log, scenario, *, lines=None, **values):
        window = {"power_begin": '"07-23-2024 17:00:00.500"', "power_end": '"07-23-2024 17:00:20.500"'}
        folder = add(log, scenario, edit=with_values(window | values))
        (folder / "performance/power").mkdir()
        (folder / "performance/ranging").mkdir()
        (folder / "performance/ranging/spl.txt").write_text(reading("07-23-2024 17:00:10.000", 900))
        times = ("00.500", "01.500", "02.500", "03.500", "20.500")
        given = [
            reading(f"07-23-2024 17:00:{time}", watts) for time, watts in zip(times, (5, 9, 0, 11, 500), strict=True)
        ]
        (folder / "performance/run_1/spl.txt").write_text(
            "\n".join(["Connected.", *(given if lines is None else lines)])
        )
        return folder

    return metered


def test_the_power_of_a_result_is_the_mean_of_the_readings_while_it_was_measured(metered, root, results):
    folder = metered("offline", "Offline", effective_samples_per_query=400, generated_samples_per_query=400)
    outcome = import_tree(root, results)
    assert outcome.unread == []
    energy = outcome.records[0].energy
    assert (energy.joules, energy.seconds, energy.readings) == (200.0, 20.0, 2)  # 10 W for 20 s
    assert (energy.joules_per_sample, energy.joules_per_token) == (0.5, None)
    (run,) = runs_in(results)
    assert (run / "performance/spl.txt").read_bytes() == (folder / "performance/run_1/spl.txt").read_bytes()


def test_the_energy_of_a_token_is_power_over_the_rate_of_tokens(add, metered, root, one):
    metered("offline", "Offline", result_samples_per_second=40)
    log = root / "closed/Acme/results/anvil_8/resnet50"
    log.rename(log.with_name("gptj-99"))
    file = log.with_name("gptj-99") / "Offline/performance/run_1/mlperf_log_detail.txt"
    rate = {"key": "result_inferred_tokens_per_second", "value": 40, "metadata": {}}
    file.write_text(file.read_text() + f":::MLLOG {json.dumps(rate)}\n")
    assert one().energy.joules_per_token == 0.25


def test_the_energy_of_a_multi_stream_query_is_of_eight_samples(metered, one):
    metered("multi_stream", "multistream", result_query_count=1000)
    energy = one().energy
    assert energy.joules * 1000 / 1000 == 200.0  # millijoules per query, as the official table has them
    assert energy.joules_per_sample == 0.025


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "has no reading between 17:00:00 and 17:00:20"),
        ([reading("07-23-2024 17:00:20.500", 100)], "has no reading between"),
        ([reading("07-23-2024 19:00:02.500", 100)], "readings are 2 h later, as in another time zone"),
        ([reading("07-23-2024 11:30:02.500", 100)], "readings are 5.5 h earlier, as in another time zone"),
        ([reading("07-25-2024 17:00:02.500", 100)], "when LoadGen measured."),
        (["Time,07-23-2024 17:00:02.500,Watts"], "line 2 is not a reading: 'Time,07-23-2024 17:00:02.500,Watts'"),
        (["Time,noon,Watts,1"], "line 2 is not a reading: 'Time,noon,Watts,1'"),
    ],
)
def test_power_that_cannot_be_read_is_listed_and_not_made_up(metered, root, results, lines, reason):
    metered("offline", "Offline", lines=lines)
    outcome = import_tree(root, results)
    (unread,) = outcome.unread
    assert (unread.path.name, reason in unread.reason) == ("spl.txt", True)
    (record,) = outcome.records
    assert record.energy is None
    assert "spl.txt" in record.not_measured["energy"]


def test_a_missing_file_of_readings_is_invalid(metered, root, results):
    folder = metered("offline", "Offline")
    (folder / "performance/run_1/spl.txt").unlink()
    (record,) = import_tree(root, results).records
    assert rule_of(record, "performance_files").fix == "Add to performance/run_1: spl.txt."


# model names of the open division


def test_a_mapping_does_not_change_what_an_official_name_means(add, root, one):
    add("offline", "Offline", "bert-99", division="open", accuracy='{"exact_match": 82.0, "f1": 90.5}')
    (root / "open/Acme/model_mapping.json").write_text('{"bert-99": "resnet50"}')
    assert one().workload == "bert"


def test_an_unreadable_mapping_matters_only_to_names_that_need_it(add, root, results):
    add("offline", "Offline", "bert-99", division="open")
    add("offline", "Offline", "my-bert", division="open")
    (root / "open/Acme/model_mapping.json").write_text("{")
    outcome = import_tree(root, results)
    assert [record.workload for record in outcome.records] == ["bert"]
    assert any("mapping of model names" in each.reason for each in outcome.unread)
