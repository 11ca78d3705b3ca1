"""A stored run whose record or log may say anything, held against itself."""

import json
import re
import shutil

import pytest
from hypothesis import strategies as st

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measured(one_run):
    """A run of the null backend, with what a meter and known ceilings would have added to its record."""
    folder = one_run
    record = json.loads((folder / "record.json").read_text())
    issued = record["samples"]["issued"]
    record["energy"] = {"joules": 3.0 * issued, "seconds": 2.0, "source": "a meter", "covers": "the package"}
    graph = {"graph": "classifier", "calls": issued, "shapes": 1, "operations": 7 * issued, "bytes": 5 * issued}
    work = {"graphs": [graph], "operations_per_sample": 7, "bytes_per_sample": 5, "samples_per_s": 1.0}
    record["work"] = work | {"useful_share": 1.0}
    rates = {"operations_per_s": 7.0, "bytes_per_s": 5.0, "operations_ceiling_per_s": 70.0, "bytes_ceiling_per_s": 20.0}
    record["roofline"] = {"device": "cpu", "precision": "fp32", "bound": "memory", "share": 0.25} | rates
    record["roofline"]["measured"] = "2026-11-21T00:00:00Z"
    return folder, record


@pytest.fixture
def folder(measured, tmp_path):
    """A copy of it, to change."""
    copy = tmp_path / measured[0].name
    shutil.copytree(measured[0], copy)
    (copy / "record.json").write_text(json.dumps(measured[1]))
    return copy


def test_records_to_verify(fuzz, measured, folder, mlbench):
    def run(file):
        (folder / "record.json").write_bytes(file.read_bytes())
        mlbench("verify", folder)

    fuzz.json(run, measured[1], share=0.5)


def test_logs_to_verify(fuzz, folder, mlbench, values):
    log = folder / "performance" / "mlperf_log_detail.txt"
    lines = log.read_text().splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith(":::MLLOG")]

    def use(change):
        place, value = change
        changed = lines.copy()
        changed[place] = re.sub(r'"value": .*?, "time_ms"', lambda _: f'"value": {value}, "time_ms"', lines[place])
        log.write_text("\n".join(changed), encoding="utf-8")
        fuzz.judge(mlbench, "verify", folder)

    fuzz.draw(st.tuples(st.sampled_from(places), values), use, share=0.5)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("roofline", "operations_ceiling_per_s"), 0.0),
        (("load", "min_query_count"), "many"),
        (("load", "min_query_count"), None),
        (("load", "min_query_count"), [1]),
        (("settings", "load.min_query_count", "value"), {"a": 1}),
        (("verdict", "rules", 0, "measured"), "x"),
        (("run_id",), "99999999T999999Z-resnet50-null-SingleStream-mini-fp32-smoke-0000"),
        (("created",), "0001-01-02T00:00:00Z"),
        (("fingerprints", "weights"), ""),
        (("samples", "issued"), -1),
        (("verdict", "rules", "replies_sound", "measured"), 10**15),
    ],
)
def test_a_record_of_odd_values_ends_in_a_difference_or_a_line(measured, folder, mlbench, place, value):
    record = json.loads(json.dumps(measured[1]))
    *above, last = place
    part = record
    for key in above:
        part = next(each for each in part if each["rule"] == key) if key == "replies_sound" else part[key]
    part[last] = value
    (folder / "record.json").write_text(json.dumps(record))
    assert mlbench("verify", folder).exit_code in (1, 2)


@pytest.mark.parametrize("key", ["result_query_count", "generated_samples_per_query", "qsl_reported_total_count"])
@pytest.mark.parametrize("value", ['"12"', "[1, 2]", "1.5", "true"])
def test_a_count_in_the_log_that_is_no_number_is_named(folder, mlbench, key, value):
    """Text times a number is that text again and again: with 100,000 characters the memory was full."""
    log = folder / "performance" / "mlperf_log_detail.txt"
    found = re.compile(f'("key": "{key}", "value": ).*?(, "time_ms")')
    text, times = found.subn(rf"\g<1>{value}\g<2>", log.read_text())
    assert times == 1
    log.write_text(text)
    done = mlbench("verify", folder)
    assert (done.exit_code, f"{key} is" in done.stderr) == (2, True), done.stderr


def test_a_folder_under_a_name_that_is_no_moment_ends_in_a_line(folder, mlbench):
    odd = folder.rename(folder.with_name(f"99999999T999999Z{folder.name[16:]}"))
    assert mlbench("verify", odd).exit_code in (1, 2)
