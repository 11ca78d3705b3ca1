"""What comes from somebody else is not the user's own word: settings that do more than change the speed."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from invoking import invoke, refusal

from mlbench import NAMES_FILE, OPENS_ADDRESS, RUNS_CODE, UsageError
from mlbench.comparison.comparability import key_of
from mlbench.contracts.guarded import BY_NAME, guard_of
from mlbench.planning.repeats import check_scoring, settings_as_stored
from mlbench.records.run_record import read
from mlbench.running.turns import plan_again
from mlbench.settings.layers import CORE_TEMPLATES, OwnWord, guards_of

NOTHING, TRUST = OwnWord(), OwnWord(trusts=True)


@pytest.fixture
def forged(one_run, tmp_path):
    """Return a function that stores a run with another workload, backend and settings than it had."""

    def forge(workload="llama2-70b", backend="endpoint", name=one_run.name, layer="command line", **settings):
        folder = shutil.copytree(one_run, tmp_path / "foreign" / name)
        record = json.loads((folder / "record.json").read_text())
        own = {key: each for key, each in record["settings"].items() if key.startswith(("load.", "execution."))}
        given = {key.replace("__", "."): {"value": value, "layer": layer} for key, value in settings.items()}
        record |= {"workload": workload, "backend": backend, "settings": own | given}
        (folder / "record.json").write_text(json.dumps(record))
        return folder

    return forge


def test_replay_of_a_forged_record_runs_no_command(forged, tmp_path):
    command = f"/bin/sh -c 'touch {tmp_path}/ran; exit 3' {{port}}"
    line = refusal(invoke("replay", forged(backend__start=command), "--results", tmp_path / "results"))
    assert f"backend.start is {command!r}, which runs code" in line
    assert "--trust" in line
    assert not (tmp_path / "ran").exists()


def test_each_setting_that_a_record_may_not_set_is_named(forged, plugins):
    folder = forged(backend__url="http://192.0.2.1/v1", backend__key_variable="MY_SECRET", workload__data="/etc/passwd")
    with pytest.raises(UsageError) as caught:
        settings_as_stored(read(folder), plugins, NOTHING)
    assert "backend.url is 'http://192.0.2.1/v1', which opens an address" in str(caught.value)
    assert "backend.key_variable is 'MY_SECRET', which names a secret" in str(caught.value)
    assert "workload.data is '/etc/passwd', which names a file" in str(caught.value)


def test_the_users_word_is_the_same_value_or_trust(forged, plugins):
    record = read(forged(backend__url="http://192.0.2.1/v1"))
    same, other = (OwnWord(overrides={"backend.url": f"http://{host}/v1"}) for host in ("192.0.2.1", "192.0.2.2"))
    for word in (TRUST, same):
        assert settings_as_stored(record, plugins, word).by_key["backend.url"].value == "http://192.0.2.1/v1"
    for word in (other, OwnWord(trusts=True, overrides=other.overrides)):
        with pytest.raises(UsageError, match=r"backend\.url is 'http://192\.0\.2\.1/v1' in run .*, and 'http://192\.0"):
            settings_as_stored(record, plugins, word)


def test_one_setting_that_the_user_gives_speaks_for_no_other(forged, plugins):
    record = read(forged(backend__url="http://192.0.2.1/v1", backend__start="id"))
    with pytest.raises(UsageError, match=r"backend\.start is 'id', which runs code") as caught:
        settings_as_stored(record, plugins, OwnWord(overrides={"backend.url": "http://192.0.2.1/v1"}))
    assert "backend.url" not in str(caught.value)


def test_what_is_in_force_here_anyway_is_taken(forged, plugins, monkeypatch, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('[[settings]]\nbackend.url = "http://192.0.2.1/v1"\n')
    record = read(forged(backend__url="http://192.0.2.1/v1", backend__key_variable="MLBENCH_ENDPOINT_KEY"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(file))
    settings_as_stored(record, plugins, NOTHING)


@pytest.mark.parametrize("value", [True, 1, "yes"])
def test_a_forged_record_takes_no_protection_from_the_programs_in_its_logs(forged, plugins, value):
    """The folder's name says of which workload they are; the record says another one."""
    name = "20261127T101010Z-host-mixtral-8x7b-pytorch-Offline-mini-fp32-smoke-abcd"
    folder = forged(workload="bert", backend="pytorch", name=name, workload__run_unprotected=value)
    with pytest.raises(UsageError, match=r"workload\.run_unprotected is .*, which runs code"):
        check_scoring(read(folder), plugins, NOTHING)
    done = invoke("verify", folder)
    assert (done.exit_code, "workload.run_unprotected" in done.stderr) == (2, True)


def test_logs_are_scored_without_what_only_a_run_uses(forged, plugins):
    check_scoring(read(forged(backend__start="id")), plugins, NOTHING)


def test_a_forged_record_is_not_made_again_in_turns(forged, plugins, tmp_path):
    record = read(forged(backend__start="id"))
    again = plan_again([[record], [record]], [key_of(record, ())], (), results=tmp_path, plugins=plugins, word=NOTHING)
    assert again.requests == ()
    assert any("backend.start is 'id', which runs code" in reason for reason in again.reasons)
    again = plan_again([[record], [record]], [key_of(record, ())], (), results=tmp_path, plugins=plugins, word=TRUST)
    assert [each.overrides["backend.start"] for each in again.requests[0]] == ["id", "id"]


@dataclass(frozen=True)
class Strangers:
    """Options of a plugin whose author marked one."""

    server: Annotated[str, OPENS_ADDRESS] = ""
    folder: Path | None = None
    passed_on: Mapping[str, str] = ()
    anything: Any = None
    sizes: Mapping[str, int] = ()
    form: Literal["path", "url"] = "path"
    threads: int = 0
    note: str = ""


def test_a_path_and_what_takes_anything_are_guarded_though_nobody_marked_them():
    found = {each.key: each.does for each in guards_of([("backend", Strangers())], {})}
    assert found == {
        "backend.server": OPENS_ADDRESS.does,
        "backend.folder": NAMES_FILE.does,
        "backend.passed_on": RUNS_CODE.does,
        "backend.anything": RUNS_CODE.does,
    }
    assert guard_of(dict) == guard_of(dict[str, object]) == RUNS_CODE


@dataclass(frozen=True)
class Forgotten:
    """Options whose names say more than their types."""

    cache_dir: str = ""
    api_key: str = ""
    start: str | None = None
    skip_unprotected: bool = False
    tokens: str = ""
    token_ms: int = 0
    key_count: Annotated[int, "of keys"] = 0


def test_an_option_is_guarded_by_a_name_that_says_what_it_does_though_nobody_marked_it():
    found = [each.key for each in guards_of([("backend", Forgotten())], {}) if each.does == BY_NAME.does]
    assert found == ["backend.cache_dir", "backend.api_key", "backend.start", "backend.skip_unprotected"]


def test_every_option_of_the_core_and_of_built_in_plugins_has_a_mark_where_its_name_says_so(plugins):
    owners = {name: each.options for kind in (plugins.backends, plugins.workloads) for name, each in kind.items()}
    guards = guards_of([*owners.items(), *CORE_TEMPLATES.items()], {})
    assert [each.key for each in guards if each.does == BY_NAME.does] == []


def test_settings_says_which_are_guarded():
    done = invoke("settings", "--explain", "backend.start")
    assert "runs code" in done.stdout
    assert "--trust" in done.stdout
