import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlbench import Precision, Profile, UsageError
from mlbench.contracts.backend import EnginePlan
from mlbench.loadgen.scenarios import OFFLINE
from mlbench.rules.tiers import Tier
from mlbench.settings.layers import RunConditions, Settings, resolve_settings


@dataclass(frozen=True)
class Options:
    threads: int = 0
    device: str = "auto"
    data: Path | None = None
    caps: Mapping[str, int] = field(default_factory=dict)


@pytest.fixture
def settings(tmp_path):
    """Return the settings for files and flags given as text."""

    def settings(*, workload="", backend="", system="", **flags):
        files = {}
        for name, text in {"workload": workload, "backend": backend, "system": system}.items():
            files[name] = tmp_path / f"{name}.toml"
            files[name].write_text(text or "settings = []")
        run_conditions = RunConditions(
            workload=SimpleNamespace(name="bert", options=Options(), tuning=files["workload"]),
            backend=SimpleNamespace(name="fast", options=Options(), tuning=files["backend"]),
            scenario=OFFLINE,
            profile=Profile.MINI,  # as the command line gives them
            tier=Tier.SMOKE,
            precision=Precision.FP32,
        )
        command_line = {key.replace("__", "."): value for key, value in flags.items()}
        return resolve_settings(run_conditions, system_file=files["system"], command_line=command_line)

    return settings


BATCH = "[[settings]]\nexecution.batch = {}\n"


def test_a_default_says_so(settings):
    setting = settings().by_key["execution.batch"]
    assert (setting.value, setting.layer) == ("auto", "default")


def test_each_layer_overrides_the_one_below(settings):
    layers = {"workload": BATCH.format(1), "backend": BATCH.format(2), "system": BATCH.format(3)}
    setting = settings(**layers, execution__batch="4").by_key["execution.batch"]
    assert (setting.value, setting.layer) == (4, "command line")
    setting = settings(**layers).by_key["execution.batch"]
    assert setting.value == 3
    assert setting.layer.startswith("system ")
    del layers["system"]
    assert settings(**layers).by_key["execution.batch"].layer == "backend fast"
    del layers["backend"]
    assert settings(**layers).by_key["execution.batch"].layer == "workload bert"


def test_the_scenario_sets_how_batches_are_made(settings):
    setting = settings().by_key["execution.batching"]
    assert (setting.value, setting.layer) == ("bucketed", "scenario Offline")


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("profile", "mini", "full"),
        ("tier", "smoke", "dev"),
        ("precision", "fp32", "int8"),
        ("memory", "host", "device"),
    ],
)
def test_an_entry_holds_for_a_profile_a_tier_a_precision_or_a_memory(settings, name, value, other):
    text = '[[settings]]\nwhen = {{ {} = "{}" }}\nexecution.batch = 8\n'
    assert settings(workload=text.format(name, value)).by_key["execution.batch"].value == 8
    assert settings(workload=text.format(name, other)).by_key["execution.batch"].value == "auto"


def test_an_entry_applies_only_where_its_conditions_hold(settings):
    text = '[[settings]]\nwhen = {{ workload = "{}", scenario = "Offline" }}\nexecution.batch = 8\n'
    assert settings(system=text.format("bert")).by_key["execution.batch"].value == 8
    assert settings(system=text.format("resnet50")).by_key["execution.batch"].value == "auto"


def test_settings_fill_dataclasses(settings):
    filled = settings(execution__batch="16", backend__device="cuda:1")
    assert filled.fill("execution", EnginePlan()).batch == 16
    assert filled.fill("backend", Options()) == Options(device="cuda:1")


def test_a_mapping_is_a_table_in_a_file_and_pairs_on_the_command_line(settings):
    file = "[[settings]]\nbackend.caps = {{ rows = 64, length = {} }}\n"
    assert settings(system=file.format(512)).by_key["backend.caps"].value == {"rows": 64, "length": 512}
    typed = settings(system=file.format(512), backend__caps="rows=8, length=128")
    assert typed.fill("backend", Options()).caps == {"rows": 8, "length": 128}


def test_settings_survive_the_way_to_another_process(settings):
    plain = json.loads(json.dumps(settings(workload__data="images/val").plain()))
    assert Settings.of_plain(plain).fill("workload", Options()) == Options(data=Path("images/val"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"execution__bacth": "4"},
            r"unknown setting 'execution.bacth' \(command line\)\. Did you mean 'execution.batch'",
        ),
        ({"execution__batch": "four"}, r"execution.batch is 'four' \(command line\): Input should be a valid integer"),
        ({"system": "[[settings]]\nexecution.batch = 1.5\n"}, r"execution.batch is 1.5 \(system .*\)"),
        ({"system": '[[settings]]\nwhen = { weather = "fine" }\n'}, "unknown condition 'weather'"),
        ({"system": "execution.batch = 4"}, "is not a settings file"),
        ({"system": "[[settings"}, "is not a TOML file"),
        ({"execution__precision": "int8"}, "Use --precision"),
        ({"backend__caps": "rows"}, r"backend.caps is 'rows' \(command line\): Input should be a valid integer"),
        (
            {"backend__caps": "rows=few"},
            r"backend.caps is 'rows=few' \(command line\): Input should be a valid integer",
        ),
    ],
)
def test_what_is_wrong_is_reported_with_its_layer(settings, files, told):
    with pytest.raises(UsageError, match=told):
        settings(**files)
