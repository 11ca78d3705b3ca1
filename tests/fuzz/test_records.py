"""Stored records, baselines and ceilings, and the commands that read them."""

import json

import pytest
from hypothesis import strategies as st
from invoking import refusal

from mlbench.records.machine.readings import read_readings
from mlbench.records.run_record import read
from mlbench.records.store.baselines import read_baseline
from mlbench.roofline.ceilings import ceilings_file, load_ceilings
from mlbench.running.kept_runs import read_state

COMMANDS = [
    ["show", "one"],
    ["show", "one", "--json"],
    ["table"],
    ["compare", "one", "one"],
    ["history", "one"],
    ["baseline", "save", "good", "one"],
    ["published", "--place", "one"],
    ["report", "--markdown", "one"],
]


def test_records(fuzz, stored_run):
    _, fields = stored_run
    fuzz.json(read, fields, "record.json", share=4)
    fuzz.paths(read)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_commands_on_a_record(fuzz, stored_run, mlbench, command):
    results, fields = stored_run

    def run(file):
        (results / "one" / "record.json").write_bytes(file.read_bytes())
        mlbench(*command)

    fuzz.json(run, fields, share=0.2)


def test_readings_of_sensors(fuzz):
    rows = b"seconds,device,clock_mhz,temperature_c,busy,power_w,strangers\n1,GPU 0,1980,,0.5,,0\n2,GPU 0,1780,60,,,\n"

    def read_them(file):
        read_readings(file.parent)

    fuzz.bytes(read_them, rows, "telemetry.csv")
    fuzz.paths(read_readings)


def test_baselines(fuzz, stored_run):
    results, fields = stored_run
    baseline = {"format": 1, "name": "good", "created": "2026-11-21T00:00:00Z", "records": [fields]}
    (results / ".baselines").mkdir()

    def read_it(file):
        (results / ".baselines" / "good.json").write_bytes(file.read_bytes())
        read_baseline(results, "good")

    fuzz.json(read_it, baseline)


def test_the_state_of_a_bisection(fuzz):
    fuzz.json(read_state, {"versions": ["a" * 40, "b" * 40], "skipped": {"1": "it does not build"}}, "bisect.json")
    fuzz.paths(read_state)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"", b"[" * 100_000, b'{"format": 1' + b"0" * 5000 + b"}"])
def test_a_baseline_that_is_no_text_or_too_deep_is_refused_by_its_name(stored_run, mlbench, content):
    results, _ = stored_run
    (results / ".baselines").mkdir()
    (results / ".baselines" / "good.json").write_bytes(content)
    assert "baseline 'good'" in refusal(mlbench("regress", "--baseline", "good"))


def test_names_of_baselines(fuzz, stored_run, words):
    results, _ = stored_run

    def use(name):
        fuzz.judge(read_baseline, results, name)

    fuzz.draw(words, use, share=4)


def test_ceilings(fuzz, environment):
    ceiling = {"per_s": 1e12, "how": "4096 x 4096 matrices"}
    device = {"device": "cpu", "operations": {"fp32": ceiling}, "bytes": ceiling, "not_measured": {}}
    facts = {"measured": "2026-11-21T00:00:00Z", "machine": environment.machine, "threads": 2, "libraries": {}}
    kept = ceilings_file(environment)
    kept.parent.mkdir(parents=True, exist_ok=True)

    def read_it(file):
        kept.write_bytes(file.read_bytes())
        load_ceilings(environment)

    fuzz.json(read_it, facts | {"devices": [device]})
    kept.write_text(json.dumps(facts | {"devices": [device]}))
    assert load_ceilings(environment)
    kept.unlink()


def test_a_moment_that_no_calendar_in_utc_has_is_refused(fuzz, stored_run):
    results, fields = stored_run
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        (results / "one" / "record.json").write_text(json.dumps(fields | {"created": moment}))
        with pytest.raises(Exception, match=r"run record is corrupt: .*: created: .*no moment in UTC"):
            read(results / "one")


def test_questions_in_sql(fuzz, stored_run, mlbench, words):
    def use(sql):
        fuzz.judge(mlbench, "query", sql)

    fuzz.draw(st.builds("SELECT {} FROM runs".format, words), use, share=0.2)
