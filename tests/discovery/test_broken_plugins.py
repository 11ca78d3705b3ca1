"""A plugin that is broken, or never answers: a row with its reason, and the others work."""

import json

import pytest
from invoking import invoke
from one_backend import RIGHT

from mlbench.discovery import Plugins, guard, plugins
from mlbench.system.installed import find_installed


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
    assert len(plugins.scenarios) == 9
    assert list(plugins.commands) == ["bench-endpoint", "mock-server"]
    assert "quick" not in {*plugins.backends, *plugins.workloads, *plugins.power_meters}


@pytest.mark.parametrize("source", ["hook exits", "probe exits", "exits quietly at import", "a class"])
def test_using_a_broken_plugin_is_refused_and_nothing_has_run(install, source, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    install("quick", BROKEN[source][0])
    run = ["run", "resnet50", "--scenario", "Offline", "--backend"]
    done = invoke(*run, "quick")
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.splitlines()
    assert line.startswith(("Error: backend 'quick' cannot be used: ", "Error: quick cannot be used: "))
    for name in ("settings", "check"):
        done = invoke(name, *["bert"] if name == "settings" else [], "quick")
        assert done.exit_code == 2, done.output
    done = invoke(*run, "null", "--set", "load.speed=9")
    assert "unknown setting 'load.speed'" in done.stderr  # the others are asked as ever
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("source", ["hook exits", "probe exits", "a name that acts", "a command of our name"])
def test_a_broken_plugin_is_listed_with_its_reason(install, source):
    install("quick", BROKEN[source][0])
    listed = json.loads(invoke("list", "--json").stdout)
    (row,) = listed["broken"]
    assert BROKEN[source][1] in row["reason"]
    done = invoke("list")
    assert (done.exit_code, done.stdout.count("broken: ")) == (0, 1)
    assert "\x1b[31m" not in done.stdout
    assert invoke("--help").exit_code == 0


def test_what_a_plugin_says_of_itself_is_text(install):
    said = r'"\x1b]0;owned\x07\x9b31m[/x]\nforged"'
    probe = f"return Probe(is_available=False, reason={said}, install={said})"
    install("quick", probing(probe).replace("    def probe", f"    title = {said}\n    def probe"))
    for arguments in (["list"], ["run", "bert", "--backend", "quick"], ["list", "--json"]):
        done = invoke(*arguments)
        printed = done.stdout + done.stderr
        assert "owned" in printed
        assert not set("\x1b\x07\x9b") & set(printed)
        assert "\nforged" not in printed


def test_doctor_names_a_broken_plugin(install, monkeypatch):
    from mlbench.records.machine import noise

    quiet = noise.Noise(spread=0.01, longest_pause_ns=1)
    monkeypatch.setattr(noise, "measure_noise", lambda: quiet)
    install("quick", BROKEN["probe exits"][0])
    done = invoke("doctor")
    assert done.exit_code == 0, done.output
    assert "broken      quick (from quick-plugin): probe() raised SystemExit: 0" in done.stdout


def test_one_bad_backend_of_two_is_a_row_and_the_other_works(install):
    install("quick", returning("other = Quick(); other.name = 'fast'; other.title = 3; return [other, Quick()]"))
    plugins = Plugins.discover()
    assert "quick" in plugins.backends
    (row,) = plugins.broken
    assert (row.name, row.reason) == ("fast", "title is a int, not text")


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
