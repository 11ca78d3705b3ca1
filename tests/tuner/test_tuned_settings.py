"""The file of tuned settings: entries are replaced one by one, and it is a settings file as others."""

import os
import tomllib
from types import SimpleNamespace

import pytest

from mlbench import Precision, Profile, UsageError
from mlbench.loadgen.scenarios import OFFLINE, SERVER
from mlbench.rules.tiers import Tier
from mlbench.settings.layers import RunConditions, resolve_settings
from mlbench.tuner.tuned_settings import check_place, save_entry

BERT = {"workload": "bert", "backend": "fast", "scenario": "Server"}
FOUND = {"by": "mlbench tune", "runs": ["a", "b"]}


def entries(file):
    return tomllib.loads(file.read_text())["settings"]


def conditions(scenario=SERVER):
    return RunConditions(
        workload=SimpleNamespace(name="bert", options=Nothing(), tuning=None),
        backend=SimpleNamespace(name="fast", options=Nothing(), tuning=None),
        scenario=scenario,
        profile=Profile.MINI,
        tier=Tier.SMOKE,
        precision=Precision.FP32,
    )


def Nothing():
    from dataclasses import make_dataclass

    return make_dataclass("Nothing", [])()


def test_a_rate_is_used_by_runs_with_its_conditions_and_by_no_others(tmp_path):
    file = tmp_path / "settings.tuned.toml"
    save_entry(file, BERT, {"load.target_qps": 12.5, "execution.batch": "8"}, FOUND)
    settings = resolve_settings(conditions(), tuned_file=file).by_key
    assert (settings["load.target_qps"].value, settings["load.target_qps"].layer) == (12.5, f"tune {file}")
    assert settings["execution.batch"].value == 8
    assert resolve_settings(conditions(OFFLINE), tuned_file=file).by_key["load.target_qps"].value == 0


def test_what_a_person_writes_overrides_it(tmp_path):
    tuned, own = tmp_path / "settings.tuned.toml", tmp_path / "settings.toml"
    save_entry(tuned, BERT, {"load.target_qps": 12.5}, FOUND)
    own.write_text("[[settings]]\nload.target_qps = 3\n")
    setting = resolve_settings(conditions(), tuned_file=tuned, system_file=own).by_key["load.target_qps"]
    assert (setting.value, setting.layer, setting.replaced.value) == (3, f"system {own}", 12.5)


def test_a_newer_entry_replaces_the_older_one_and_keeps_the_others(tmp_path):
    file = tmp_path / "settings.tuned.toml"
    save_entry(file, BERT, {"load.target_qps": 1.0}, FOUND)
    save_entry(file, {**BERT, "backend": "other"}, {"load.target_qps": 2.0}, FOUND)
    save_entry(file, BERT, {"load.target_qps": 3.0}, {"by": 'a "quoted" \x7f name'})
    kept, new = entries(file)
    assert kept == {"when": {**BERT, "backend": "other"}, "load": {"target_qps": 2.0}, "found": FOUND}
    assert new == {"when": BERT, "load": {"target_qps": 3.0}, "found": {"by": 'a "quoted" \x7f name'}}
    assert os.listdir(tmp_path) == ["settings.tuned.toml"]


@pytest.mark.parametrize("text", ["settings = 3", "[[settings]]\nwhen = 3\n", "[other]\na = 1\n", "no toml"])
def test_a_file_that_mlbench_did_not_write_is_left_alone(tmp_path, text):
    file = tmp_path / "settings.tuned.toml"
    file.write_text(text)
    with pytest.raises(UsageError):
        check_place(file)
    assert file.read_text() == text


def test_a_place_that_cannot_be_written_is_refused_beforehand(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="settings file cannot be written"):
        check_place(tmp_path / "file" / "settings.tuned.toml")


def test_looking_at_the_place_leaves_nothing_there(tmp_path):
    check_place(tmp_path / "new" / "settings.tuned.toml")
    assert os.listdir(tmp_path / "new") == []


def rate(file, **command_line):
    asked = {f"load.{name}": value for name, value in command_line.items()}
    return resolve_settings(conditions(), tuned_file=file, command_line=asked).by_key["load.target_qps"].value


def test_a_rate_found_under_a_limit_is_for_runs_with_that_limit_alone(tmp_path):
    file = tmp_path / "settings.tuned.toml"
    save_entry(file, BERT, {"load.target_qps": 9.0}, {**FOUND, "latency_limit_ms": 50.0})
    assert rate(file) == 0
    assert rate(file, latency_limit_ms="50") == 9
    assert rate(file, latency_limit_ms="60") == 0
    assert rate(file, latency_limit_ms="50", ttft_limit_ms="10") == 0


def test_a_rate_found_under_the_rules_limit_is_not_for_a_stricter_one(tmp_path):
    file = tmp_path / "settings.tuned.toml"
    save_entry(file, BERT, {"load.target_qps": 12.5}, FOUND)
    assert (rate(file), rate(file, latency_limit_ms="50")) == (12.5, 0)


def test_rates_found_under_different_limits_are_kept_side_by_side(tmp_path):
    file = tmp_path / "settings.tuned.toml"
    for found, limit in ((12.5, {}), (9.0, {"latency_limit_ms": 50.0}), (8.0, {"latency_limit_ms": 50.0})):
        save_entry(file, BERT, {"load.target_qps": found}, {**FOUND, **limit})
    assert len(entries(file)) == 2
    assert (rate(file), rate(file, latency_limit_ms="50")) == (12.5, 8)
