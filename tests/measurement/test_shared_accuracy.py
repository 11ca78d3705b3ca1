"""An accuracy test that stands for a later run: its logs are taken over, and its scores are those of its record."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench import Metric, Target
from mlbench.measurement.shared_accuracy import earlier_speed, read_scores, take_accuracy_test
from mlbench.records.job_spec import JobSpec
from mlbench.records.run_record import RunRecord, read

LOGS = Path(__file__).parents[1] / (
    "data/submission/v4.1/closed/ConnectTechInc/results/Orin_TRT/gptj-99/Offline/performance/run_1"
)
STORED_RUN = Path(__file__).parents[1] / "data/records/resnet50-pytorch-Offline.json"


class TopOne(Metric):
    """Has the target of the stored run, and cannot score."""

    targets = (Target(score="acc", reference=97.0, lower=96.0, name="99"),)

    def score(self, replies):
        raise AssertionError("the scores are there")

    def line(self, scores):
        return f"accuracy={scores['acc']:.3f}%"


@pytest.fixture
def earlier(tmp_path):
    """Return the folder of a run with an accuracy test."""
    folder = tmp_path / "earlier"
    (folder / "accuracy").mkdir(parents=True)
    (folder / "accuracy" / "mlperf_log_accuracy.json").write_text("[]")
    shutil.copy(STORED_RUN, folder / "record.json")
    return folder


@pytest.fixture
def spec(tmp_path, earlier):
    names = dict.fromkeys(("workload", "backend", "scenario", "profile", "tier", "weights", "precision"), "x")
    (tmp_path / "own").mkdir()
    return JobSpec(**names, settings={}, folder=str(tmp_path / "own"), accuracy_of=str(earlier))


def test_the_logs_are_in_both_folders_and_neither_changes_the_other(spec, earlier):
    assert take_accuracy_test(spec) == spec
    own = Path(spec.folder, "accuracy", "mlperf_log_accuracy.json")
    own.write_text("[1]")
    assert (earlier / "accuracy" / own.name).read_text() == "[]"


def test_a_run_makes_its_own_test_where_the_earlier_one_is_gone(spec, earlier):
    shutil.rmtree(earlier)
    assert take_accuracy_test(spec).accuracy_of == ""
    assert not Path(spec.folder, "accuracy").exists()


def test_a_run_without_an_earlier_test_is_left_as_it_is(tmp_path, spec):
    own = replace(spec, accuracy_of="")
    assert take_accuracy_test(own) is own
    assert not Path(spec.folder, "accuracy").exists()


def test_the_scores_are_the_recorded_ones_to_the_last_digit(earlier):
    recorded = read(earlier).accuracy
    found = read_scores(earlier, TopOne(), "fp32", TopOne.targets)
    assert found.scores == recorded.scores
    assert found.output_difference.value == recorded.output_difference.value
    assert found.output_difference.is_met == recorded.output_difference.is_met
    assert found.is_met


def test_a_score_that_is_no_number_stays_none(earlier):
    record = json.loads((earlier / "record.json").read_text())
    record["accuracy"]["scores"]["acc"] = None
    (earlier / "record.json").write_text(json.dumps(record))
    found = read_scores(earlier, TopOne(), "fp32", TopOne.targets)
    assert math.isnan(found.scores["acc"])
    assert not found.is_met


def test_the_line_is_the_one_of_the_record_with_its_whole_numbers(earlier):
    record = json.loads((earlier / "record.json").read_text())
    record["accuracy"]["line"] = "{'gen_len': 5054, 'gen_num': 256}"
    (earlier / "record.json").write_text(json.dumps(record))
    assert read_scores(earlier, TopOne(), "fp32", TopOne.targets).line == "{'gen_len': 5054, 'gen_num': 256}"


def test_a_record_that_is_gone_or_has_no_scores_gives_none(earlier):
    record = json.loads((earlier / "record.json").read_text())
    (earlier / "record.json").write_text(json.dumps(record | {"accuracy": None}))
    assert read_scores(earlier, TopOne(), "fp32", TopOne.targets) is None
    (earlier / "record.json").unlink()
    assert read_scores(earlier, TopOne(), "fp32", TopOne.targets) is None


def test_the_speed_of_the_earlier_run_is_what_loadgen_counted(spec, earlier):
    shutil.copytree(LOGS, earlier / "performance")
    assert earlier_speed(spec) == pytest.approx(0.927649)


def test_of_a_language_model_it_is_that_without_the_tail(spec, earlier):
    """200 tokens in 2 s, of answers of ten tokens: ten samples a second."""
    steady = {"new_tokens": 200, "busy_ns": 2 * 10**9, "whole_ns": 3 * 10**9}
    replace_in_record(earlier, engine={"samples": 25, "new_tokens": 250, "steady": steady})
    assert earlier_speed(spec) == pytest.approx(10)


def test_of_a_short_test_whose_steady_part_was_slower_it_is_that_of_the_whole(spec, earlier):
    """Few samples wait for a place: what is steady holds only the first answers, which had most beside them."""
    shutil.copytree(LOGS, earlier / "performance")
    steady = {"new_tokens": 10, "busy_ns": 2 * 10**9, "whole_ns": 3 * 10**9}
    replace_in_record(earlier, engine={"samples": 25, "new_tokens": 250, "steady": steady})
    assert earlier_speed(spec) == pytest.approx(0.927649)


def test_no_speed_is_taken_over_where_there_is_none(spec, earlier):
    assert earlier_speed(replace(spec, accuracy_of="")) is None
    assert earlier_speed(spec) is None, "its logs are gone"
    shutil.copytree(LOGS, earlier / "performance")
    facts = read(earlier).scenario_facts.model_dump(mode="json")
    replace_in_record(earlier, scenario_facts=facts | {"loadgen": "Server", "arrivals": "at a rate"})
    assert earlier_speed(spec) is None, "a rate was chosen there"
    (earlier / "record.json").unlink()
    assert earlier_speed(spec) is None


def replace_in_record(folder, **changes):
    fields = json.loads((folder / "record.json").read_text()) | changes
    (folder / "record.json").write_text(json.dumps(fields))


@pytest.mark.parametrize(("tier", "is_allowed"), [("smoke", True), ("dev", False), ("valid", False)])
def test_no_record_above_smoke_has_a_shared_test(tier, is_allowed):
    fields = json.loads(STORED_RUN.read_text()) | {"tier": tier}
    fields["accuracy"]["tested_in"] = "20260101T000000Z-x"
    if is_allowed:
        assert RunRecord.model_validate(fields).accuracy.tested_in
        return
    with pytest.raises(ValueError, match=f"a run of tier {tier} makes its own accuracy test"):
        RunRecord.model_validate(fields)
