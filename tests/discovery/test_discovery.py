import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from invoking import invoke
from one_backend import RIGHT

from mlbench import PluginError
from mlbench.discovery import Plugins, guard, import_notes
from mlbench.system.folders import is_without_plugins
from mlbench.system.installed import find_installed


def broken_rows(plugins):
    return {broken.name: broken for broken in plugins.broken}


def test_the_built_in_plugins_are_found_through_their_entry_points():
    plugins = Plugins.discover()
    assert {"null", "pytorch", "onnxruntime"} <= set(plugins.backends)
    assert {"resnet50", "bert"} <= set(plugins.workloads)
    assert list(plugins.scenarios)[:4] == ["SingleStream", "MultiStream", "Server", "Offline"]
    assert list(plugins.scenarios)[4:] == ["Interactive", "SingleStream-open", "Rate", "Concurrency", "Schedule"]
    assert list(plugins.workloads)[-2:] == ["prompts", "vectors"]
    assert plugins.broken == []


def test_a_strangers_backend_is_found(install):
    install("quick", RIGHT)
    assert Plugins.discover().best_backend().name == "quick"


def test_what_a_plugin_prints_is_no_part_of_the_answer(install):
    install("quick", "print('hello')\n" + RIGHT.replace("return [Quick()]", "print('again'); return [Quick()]"))
    done = invoke("list", "--json")
    assert "quick" in {row["name"] for row in json.loads(done.stdout)["backends"]}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("entry_points.txt", b"[mlbench]\nbad = \xff\n"),
        ("entry_points.txt", b"[mlbench]\nno equals sign\n"),
        ("entry_points.txt", b""),
        ("METADATA", b"Name: \xff\n"),
        ("METADATA", b""),
    ],
)
def test_a_damaged_distribution_hides_no_other(install, tmp_path, file, content):
    install("quick", RIGHT)
    info = tmp_path / "unrelated-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unrelated\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nunrelated = unrelated:main\n")
    (info / file).write_bytes(content)
    importlib.invalidate_caches()
    plugins = Plugins.discover()
    assert {"quick", "pytorch"} <= set(plugins.backends)
    is_unreadable = file == "entry_points.txt" and content != b""
    assert [row.name for row in plugins.broken] == (["unrelated"] if is_unreadable else [])
    if is_unreadable:
        assert "its entry points cannot be read: " in plugins.broken[0].reason
    assert invoke("list").exit_code == 0


@pytest.mark.parametrize("file", ["METADATA", "direct_url.json"])
def test_a_plugin_with_damaged_metadata_works(install, tmp_path, file):
    from mlbench.records.environment import observe_environment

    install("quick", RIGHT)
    (tmp_path / "quick-1.0.dist-info" / file).write_bytes(b"Name: \xff\n")
    importlib.invalidate_caches()
    assert "quick" in Plugins.discover().backends
    assert observe_environment().libraries


def test_a_plugin_that_exits_when_it_is_notified_of_a_run_is_warned_of(install, tmp_path, caplog):
    install("quick", "from mlbench import hookimpl\n@hookimpl\ndef mlbench_run_stored(folder): exit(0)\n")
    Plugins.discover().notify_stored(tmp_path)
    assert f"plugin quick (quick-plugin) did not take {tmp_path.name}: SystemExit" in caplog.text


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("raise OSError('no network')", 1, "Error: command quick failed: OSError: no network.\n"),
        ("raise click.ClickException('no')", 1, "Error: no\n"),
        ("raise SystemExit(3)", 3, ""),
    ],
)
def test_a_command_from_outside_fails_in_one_line(install, body, status, said):
    lines = ["import click", "from mlbench import hookimpl", "@click.command('quick')", f"def quick(): {body}"]
    install("quick", "\n".join([*lines, "@hookimpl", "def mlbench_commands(): return [quick]", ""]))
    done = invoke("quick")
    assert (done.exit_code, done.stderr, done.stdout) == (status, said, "")


def test_a_timer_of_the_callers_goes_on_after_a_plugin_was_called():
    rung = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: rung.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        assert guard.call_plugin(lambda: "answer") == "answer"
        assert rung.wait(60)
    finally:
        signal.signal(signal.SIGALRM, before)


INTERRUPTED = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # not there where SIGINT was ignored before
from mlbench.discovery.guard import call_plugin
try:
    call_plugin(lambda: os.kill(os.getpid(), signal.SIGINT))
except KeyboardInterrupt:
    print("the user's")
"""


def test_ctrl_c_while_a_plugin_loads_is_the_users():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True)
    assert done.stdout == "the user's\n"


def test_two_plugins_under_one_name_are_a_row_and_neither_is_used(install):
    install("quick", RIGHT)
    install("fast", RIGHT)
    plugins = Plugins.discover()
    assert "two plugins bring 'quick': fast and quick" in broken_rows(plugins)["quick"].reason
    with pytest.raises(PluginError, match="uninstall one"):
        plugins.backend("quick")


def run_with(tmp_path, *words, **environment):
    """Run the real command where plugins of `install` are; it keeps its cache there, too."""
    named = {"PYTHONPATH": str(tmp_path), "MLBENCH_CACHE": str(tmp_path / "cache"), **environment}
    command = [sys.executable, "-m", "mlbench", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | named, timeout=60)


@pytest.mark.thorough("command line", but=["os.kill(os.getpid(), signal.SIGILL)"])
@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGILL)"])
def test_a_plugin_whose_import_ends_the_process_is_named_by_the_next_command_and_tried_again_when_it_has_changed(
    install, tmp_path, end
):
    install("lethal", f"import os, signal\n{end}\n")
    assert run_with(tmp_path, "list").returncode not in (0, 1)
    after = run_with(tmp_path, "list")
    assert after.returncode == 0
    assert "lethal  broken: importing it ended process" in after.stdout
    module = tmp_path / "lethal_plugin.py"
    module.write_text(RIGHT)
    os.utime(module, (time.time() + 10,) * 2)
    assert "quick" in run_with(tmp_path, "list").stdout


def test_a_plugin_that_another_process_is_importing_right_now_is_none_of_these(install, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    install("quick", RIGHT)
    Plugins.discover()
    assert list((tmp_path / "cache/importing").iterdir()) == []
    (entry,) = (each for each in find_installed("mlbench") if each.name == "quick-plugin")
    with import_notes.note_import(entry.entry_points[0], entry.name):
        (note,) = (tmp_path / "cache/importing").iterdir()
        parent = note.with_suffix(f".{os.getppid()}")
        note.rename(parent)
        assert Plugins.discover().best_backend().name == "quick"
        parent.rename(note)


def test_what_another_machine_with_the_same_cache_is_importing_accuses_no_plugin(install, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    install("quick", RIGHT)
    (found,) = (each for each in find_installed("mlbench") if each.name == "quick-plugin")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(import_notes, "_processes", lambda: "another machine")
        with import_notes.note_import(found.entry_points[0], found.name):
            (note,) = (tmp_path / "cache/importing").iterdir()
            shutil.copy(note, note.with_suffix(".999999999"))
    assert Plugins.discover().best_backend().name == "quick"


@pytest.mark.parametrize(("words", "variables"), [(["--no-plugins"], {}), ([], {"MLBENCH_NO_PLUGINS": "1"})])
def test_without_plugins_only_those_of_mlbench_are_loaded(install, monkeypatch, words, variables):
    install("quick", "raise SystemExit(3)")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = invoke(*words, "list")
    assert "quick  broken: it is not loaded: --no-plugins, or MLBENCH_NO_PLUGINS (from quick-plugin)" in done.stdout
    assert "onnxruntime" in done.stdout
    assert not is_without_plugins() or variables


def test_a_plugin_that_is_waited_for_is_named_while_it_is(install, monkeypatch, capfd):
    monkeypatch.setattr(guard, "_SAY_AFTER_S", 0.05)
    install("quick", RIGHT.replace("        return Probe", "        time.sleep(0.2)\n        return Probe"))
    (source,) = Path(sys.path[0]).glob("quick_plugin.py")
    source.write_text(f"import time\n{source.read_text()}")
    assert Plugins.discover().probe("quick").is_available
    assert capfd.readouterr().err == "waiting for plugin quick\n"


@pytest.mark.parametrize("place", ["", "    "], ids=["at import", "in its probe"])
def test_a_command_ends_although_a_plugin_left_a_thread_and_names_it(install, tmp_path, place):
    start = "import threading; threading.Thread(target=threading.Event().wait).start()"
    if place:
        start = RIGHT.replace("        return Probe", f"        {start}\n        return Probe")
    install("quick", start)
    done = run_with(tmp_path, "list")
    assert "left a thread running; mlbench exits without waiting for it." in done.stderr
    assert "quick" in done.stderr
    assert done.returncode == 0


FORKED = """
import sys, threading
import mlbench.discovery.shipped
before, rules = set(sys.modules), []
sys.addaudithook(lambda event, args: event == "open" and str(args[0]).endswith(".toml") and rules.append(args[0]))
from mlbench.discovery import Plugins
Plugins.discover()
print(sorted(set(sys.modules) - before), rules, threading.active_count(), "torch" in sys.modules)
"""


def test_a_fork_finds_the_shipped_plugins_without_importing_or_reading_more():
    words = [sys.executable, "-c", FORKED]
    alone = os.environ | {"MLBENCH_NO_PLUGINS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=alone)
    assert done.stdout == "[] [] 1 False\n"
