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
from click.testing import CliRunner

from mlbench import PluginError
from mlbench.cli import main
from mlbench.discovery import Plugins, guard, import_notes, plugins
from mlbench.system.folders import is_without_plugins
from mlbench.system.installed import find_installed

RIGHT = """
from mlbench import Backend, Probe, hookimpl

class Quick(Backend):
    name = "quick"
    def probe(self):
        return Probe(is_available=True, rank=1000)
    def engine(self, model, plan):
        raise NotImplementedError

@hookimpl
def mlbench_backends():
    return [Quick()]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install one-module plugins, as pip would leave them."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name, source):
        (tmp_path / f"{name}_plugin.py").write_text(source)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[mlbench]\n{name} = {name}_plugin\n")
        importlib.invalidate_caches()

    yield install
    for module in [module for module in sys.modules if module.endswith("_plugin")]:
        del sys.modules[module]


def broken_rows(plugins):
    return {broken.name: broken for broken in plugins.broken}


def test_the_built_in_plugins_are_found_through_their_entry_points():
    plugins = Plugins.discover()
    assert {"null", "pytorch", "onnxruntime"} <= set(plugins.backends)
    assert {"resnet50", "bert"} <= set(plugins.workloads)
    assert list(plugins.scenarios)[:4] == ["SingleStream", "MultiStream", "Server", "Offline"]
    assert list(plugins.scenarios)[4:] == ["SingleStream-open", "Rate", "Concurrency"]
    assert list(plugins.workloads)[-1] == "prompts"
    assert plugins.broken == []


def test_a_strangers_backend_is_found(install):
    install("quick", RIGHT)
    assert Plugins.discover().best_backend().name == "quick"


def with_class(line):
    """Return the plugin with a line more in its backend."""
    return RIGHT.replace('    name = "quick"\n', f'    name = "quick"\n    {line}\n')


def probing(answer):
    """Return the plugin with another answer to `probe`."""
    return RIGHT.replace("return Probe(is_available=True, rank=1000)", answer)


def returning(what):
    """Return the plugin with something else brought by its hook."""
    return RIGHT.replace("return [Quick()]", what)


def of_another(hook, source):
    """Return a plugin that brings something else."""
    return f"from mlbench import *\nimport click\n{source}\n@hookimpl\ndef {hook}():\n    return [Thing()]\n"


UNSPEAKABLE = "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n"
METER = """
class Thing(PowerMeter):
    name = "quick"
    def probe(self): return ""
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def energy(self): return None
"""
WORKLOAD = """
class Thing(Workload):
    name, title, rules = "quick", "a workload", "bert"
    def dataset(self, variant): pass
    def model(self, variant): pass
    def metric(self, variant, dataset): pass
"""
SCENARIO = """
import dataclasses
from mlbench.loadgen.scenarios import OFFLINE
def Thing(): return dataclasses.replace(OFFLINE, **{"name": "quick", %s})
"""
COMMAND = """
class Thing(click.Command):
    def __init__(self): super().__init__(%r)
"""

BROKEN = {
    "raises at import": ("raise OSError('libfast.so.3 is missing')", "OSError: libfast.so.3 is missing"),
    "exits at import": ("import sys; sys.exit('no licence')", "SystemExit: no licence"),
    "exits quietly at import": ("import sys; sys.exit(0)", "SystemExit: 0"),
    "interrupts at import": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "raises a BaseException": ("class Odd(BaseException): pass\nraise Odd('so')", "Odd: so"),
    "raises what has no words": (UNSPEAKABLE + "raise Mute", "Mute"),
    "recurses at import": ("def again(): again()\nagain()", "RecursionError"),
    "no Python": ("def :", "SyntaxError"),
    "no text": ("x = '\x00'", "null bytes"),
    "no hook": ("x = 1", "quick_plugin implements no hook of mlbench"),
    "an unknown hook": (RIGHT.replace("def mlbench_backends", "def mlbench_backend"), "no hook mlbench_backend"),
    "a hook with an unknown parameter": (
        RIGHT.replace("mlbench_backends()", "mlbench_backends(more)"),
        "PluginValidationError",
    ),
    "hook raises": (returning("raise TypeError('no')"), "mlbench_backends raised TypeError: no"),
    "hook exits": (returning("import sys; sys.exit(0)"), "mlbench_backends raised SystemExit: 0"),
    "hook returns nothing": (returning("pass"), "mlbench_backends returned None; return a list"),
    "hook returns a class": (returning("return Quick"), "mlbench_backends returned the class Quick; return a list"),
    "hook returns a backend": (returning("return Quick()"), "mlbench_backends returned a Quick; return a list"),
    "hook yields for ever": (returning("while True: yield Quick()"), "returned a generator; return a list"),
    "a class": (returning("return [Quick]"), "brings the class Quick; return an instance of it"),
    "no backend": (returning("return [object()]"), "brings a object, which is not a Backend"),
    "None": (returning("return [None]"), "brings None, which is not a Backend"),
    "no name": (RIGHT.replace('name = "quick"', "pass"), "has no attribute 'name'"),
    "a name that is a number": (RIGHT.replace('"quick"', "7"), "whose name is a int, not text"),
    "an empty name": (RIGHT.replace('"quick"', '""'), "called ''"),
    "a name with a path": (RIGHT.replace('"quick"', '"../quick"'), "called '../quick'"),
    "a name of two lines": (RIGHT.replace('"quick"', '"qu\\nick"'), r"called 'qu\nick'"),
    "a name that acts": (RIGHT.replace('"quick"', '"\\x1b[31mquick"'), r"called '\x1b[31mquick'"),
    "a name of 65 letters": (RIGHT.replace('"quick"', '"q" * 65'), "up to 64 letters"),
    "a name that raises": (with_class("name = property(lambda self: 1 / 0)"), "ZeroDivisionError"),
    "a title that is not text": (with_class("title = None"), "title is None, not text"),
    "a title that exits": (with_class("title = property(lambda self: exit(0))"), "SystemExit"),
    "options that are a dictionary": (with_class("options = {'threads': 1}"), "options is a dict, not an instance"),
    "options that are a class": (with_class("from mlbench import NoOptions as options"), "the class NoOptions"),
    "a tuning file that is missing": (
        with_class("tuning = __import__('pathlib').Path('no.toml')"),
        "which does not exist",
    ),
    "modules to load that are text": (with_class("preload = 'torch'"), "preload is a str, not a sequence of names"),
    "modules to load that are none": (
        with_class("preload = ('torch; x',)"),
        "preload has 'torch; x', not a module's name",
    ),
    "a tuning file that is text": (with_class("tuning = 'no.toml'"), "tuning is a str, not a Path"),
    "probe raises": (probing("raise OSError('no driver')"), "probe() raised OSError: no driver"),
    "probe exits": (probing("import sys; sys.exit(0)"), "probe() raised SystemExit: 0"),
    "probe returns True": (probing("return True"), "probe() returned a bool, not a Probe"),
    "probe returns the class": (probing("return Probe"), "probe() returned the class Probe, not a Probe"),
    "a reason that is not text": (probing("return Probe(is_available=False, reason=3)"), "Probe.reason is a int"),
    "devices that are a text": (probing("return Probe(is_available=True, devices='cpu')"), "Probe.devices is a str"),
    "no precision": (probing("return Probe(is_available=True, precisions=())"), "Probe.precisions is empty"),
    "no name of a precision": (
        probing("return Probe(is_available=True, precisions=('Int 3',))"),
        "Probe.precisions: 'Int 3' is not the name of a precision",
    ),
    "number formats that are texts": (
        probing("return Probe(is_available=True, number_formats={'fp32': 'fp32'})"),
        "Probe.number_formats contains a str, not a NumberFormat",
    ),
    "a rank that is text": (probing("return Probe(is_available=True, rank='first')"), "Probe.rank is a str"),
    "a meter that raises": (
        of_another("mlbench_power_meters", METER.replace('return ""', "1 / 0")),
        "probe() raised ZeroDivisionError",
    ),
    "a meter that returns None": (
        of_another("mlbench_power_meters", METER.replace('return ""', "return None")),
        "what probe() returned is None, not text",
    ),
    "a meter called none": (
        of_another("mlbench_power_meters", METER.replace('"quick"', '"none"')),
        "a power meter cannot be called 'none'",
    ),
    "a workload of unknown rules": (
        of_another("mlbench_workloads", WORKLOAD.replace('"bert"', '"chess"')),
        "chess",
    ),
    "a workload with modules to load that are text": (
        of_another("mlbench_workloads", WORKLOAD.replace("name, title", "preload_always = 'torch'\n    name, title")),
        "preload is a str, not a sequence of names",
    ),
    "a workload without a title": (
        of_another("mlbench_workloads", WORKLOAD.replace('"a workload"', "None")),
        "title is None, not text",
    ),
    "a scenario of a fifth kind": (
        of_another("mlbench_scenarios", SCENARIO % '"loadgen": "Batch"'),
        "not one of Single",
    ),
    "a scenario in hours": (
        of_another("mlbench_scenarios", SCENARIO % '"result_unit": "h"'),
        "not one of ns, samples/s",
    ),
    "a latency of all at once": (
        of_another("mlbench_scenarios", SCENARIO % '"percentile": 0.99'),
        "percentile is 0.99, and LoadGen's Offline sends all samples in one query",
    ),
    "a comparison by a latency of all at once": (
        of_another("mlbench_scenarios", SCENARIO % '"compared_by": "latency"'),
        "compared_by is 'latency', and LoadGen's Offline",
    ),
    "a comparison by the weather": (
        of_another("mlbench_scenarios", SCENARIO % '"compared_by": "weather"'),
        "compared_by is 'weather', not one of result, latency",
    ),
    "a rate without a percentile": (
        of_another("mlbench_scenarios", SCENARIO % '"loadgen": "Server"'),
        "percentile is None, and LoadGen's Server judges the latency at one",
    ),
    "a command of our name": (
        of_another("mlbench_commands", COMMAND % "run"),
        "mlbench already has a command 'run'",
    ),
    "a command without a name": (of_another("mlbench_commands", COMMAND % None), "whose name is None, not text"),
}


@pytest.mark.parametrize(("source", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_plugin_is_a_row_with_its_reason_and_the_others_work(install, source, reason):
    install("quick", source)
    plugins = Plugins.discover()
    probes, faults = plugins.probes(), plugins.meter_faults()
    (row,) = plugins.broken
    assert reason in row.reason
    assert "\n" not in row.reason
    assert row.distribution == "quick-plugin"
    assert {"pytorch", "onnxruntime", "null"} <= set(probes)
    assert "rapl" in faults
    assert {"resnet50", "bert"} <= set(plugins.workloads)
    assert len(plugins.scenarios) == 7
    assert list(plugins.commands) == ["bench-endpoint"]
    assert "quick" not in {*plugins.backends, *plugins.workloads, *plugins.power_meters}


@pytest.mark.parametrize("source", ["hook exits", "probe exits", "exits quietly at import", "a class"])
def test_using_a_broken_plugin_is_refused_and_nothing_has_run(install, source, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    install("quick", BROKEN[source][0])
    run = ["run", "resnet50", "--scenario", "Offline", "--backend"]
    done = CliRunner().invoke(main, [*run, "quick"])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.splitlines()
    assert line.startswith(("Error: backend 'quick' cannot be used: ", "Error: quick cannot be used: "))
    for name in ("settings", "check"):
        done = CliRunner().invoke(main, [name, *(["bert"] if name == "settings" else []), "quick"])
        assert done.exit_code == 2, done.output
    done = CliRunner().invoke(main, [*run, "null", "--set", "load.speed=9"])
    assert "unknown setting 'load.speed'" in done.stderr  # the others are asked as ever
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("source", ["hook exits", "probe exits", "a name that acts", "a command of our name"])
def test_a_broken_plugin_is_listed_with_its_reason(install, source):
    install("quick", BROKEN[source][0])
    listed = json.loads(CliRunner().invoke(main, ["list", "--json"]).stdout)
    (row,) = listed["broken"]
    assert BROKEN[source][1] in row["reason"]
    done = CliRunner().invoke(main, ["list"])
    assert (done.exit_code, done.stdout.count("broken: ")) == (0, 1)
    assert "\x1b[31m" not in done.stdout
    assert CliRunner().invoke(main, ["--help"]).exit_code == 0


def test_what_a_plugin_says_of_itself_is_text(install):
    said = r'"\x1b]0;owned\x07\x9b31m[/x]\nforged"'
    probe = f"return Probe(is_available=False, reason={said}, install={said})"
    install("quick", probing(probe).replace("    def probe", f"    title = {said}\n    def probe"))
    for arguments in (["list"], ["run", "bert", "--backend", "quick"], ["list", "--json"]):
        done = CliRunner().invoke(main, arguments)
        printed = done.stdout + done.stderr
        assert "owned" in printed
        assert not set("\x1b\x07\x9b") & set(printed)
        assert "\nforged" not in printed


def test_doctor_names_a_broken_plugin(install, monkeypatch):
    from mlbench.records.machine import noise

    quiet = noise.Noise(spread=0.01, longest_pause_ns=1)
    monkeypatch.setattr(noise, "measure_noise", lambda: quiet)
    install("quick", BROKEN["probe exits"][0])
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 0, done.output
    assert "broken      quick (from quick-plugin): probe() raised SystemExit: 0" in done.stdout


def test_what_a_plugin_prints_is_no_part_of_the_answer(install):
    install("quick", "print('hello')\n" + RIGHT.replace("return [Quick()]", "print('again'); return [Quick()]"))
    done = CliRunner().invoke(main, ["list", "--json"])
    assert "quick" in {row["name"] for row in json.loads(done.stdout)["backends"]}


def test_one_bad_backend_of_two_is_a_row_and_the_other_works(install):
    install("quick", returning("other = Quick(); other.name = 'fast'; other.title = 3; return [other, Quick()]"))
    plugins = Plugins.discover()
    assert "quick" in plugins.backends
    assert broken_rows(plugins)["fast"].reason == "title is a int, not text"


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
    assert CliRunner().invoke(main, ["list"]).exit_code == 0


@pytest.mark.parametrize("file", ["METADATA", "direct_url.json"])
def test_a_plugin_with_damaged_metadata_works(install, tmp_path, file):
    from mlbench.records.machine.environment import observe_environment

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
    done = CliRunner().invoke(main, ["quick"])
    assert (done.exit_code, done.stderr, done.stdout) == (status, said, "")


HOLDING = {
    "waits at import": ("import time; time.sleep(3600)", "it did not finish within 0.5 s"),
    "spins at import": ("while True: pass", "it did not finish within 0.5 s"),
    "goes on whatever is raised": (
        "import time\nend_s = time.monotonic() + 1.5\nwhile time.monotonic() < end_s:\n"
        "    try: time.sleep(3600)\n    except BaseException: pass\nimport nothing_there",
        "ModuleNotFoundError",
    ),
    "a hook that waits": (
        "import threading\nfrom mlbench import hookimpl\n@hookimpl\ndef mlbench_backends(): threading.Event().wait()",
        "mlbench_backends did not finish within 0.5 s",
    ),
    "a probe that waits": (
        RIGHT.replace("return Probe(is_available=True, rank=1000)", "import time; time.sleep(3600)"),
        "probe() did not finish within 0.5 s",
    ),
}


@pytest.mark.parametrize(("source", "reason"), HOLDING.values(), ids=HOLDING.keys())
def test_a_plugin_that_never_answers_is_a_row_and_no_command_waits_for_it(install, monkeypatch, source, reason):
    """It is the only one here: on a busy machine the others may take longer."""
    install("quick", source)
    alone = [each for each in find_installed("mlbench") if "quick" in each.name]
    monkeypatch.setattr(plugins, "find_installed", lambda group: alone)
    monkeypatch.setattr(guard, "ANSWERS_WITHIN_S", 0.5)
    found = Plugins.discover()
    found.probes()
    (row,) = found.broken
    assert reason in row.reason
    assert found.backends == {}


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
    done = CliRunner().invoke(main, [*words, "list"])
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
