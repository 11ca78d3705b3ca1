"""LoadGen's logs."""

from pathlib import Path

import pytest

from mlbench import DataError
from mlbench.loadgen import scenarios
from mlbench.loadgen.logs import AccuracyLog, read_accuracy, read_damaged_detail, read_detail, samples_per_s

LOGS = Path(__file__).parents[1] / "data" / "loadgen"


def summary_of(file):
    """Read a log as a run does; LoadGen's own values are of the right kind."""
    read_detail(file)
    read_damaged_detail(file)


def replies_of(file):
    log = AccuracyLog(file)
    assert list(log) == read_accuracy(file)
    assert [log[place] for place in range(len(log))] == list(log)


@pytest.mark.parametrize("name", ["offline", "server_tokens"])
def test_detail_logs(fuzz, name):
    log = (LOGS / f"{name}.detail.txt").read_bytes()
    fuzz.bytes(summary_of, log, share=4)
    fuzz.paths(summary_of)


@pytest.mark.parametrize("key", ["[1]", "{}", "null", "1", '"\\ud800"', "1" * 5000, "[" * 10_000])
@pytest.mark.parametrize("field", ["key", "value", "metadata"])
def test_lines_of_a_detail_log(fuzz, key, field):
    fields = {"key": '"a"', "value": "1", "metadata": "{}"} | {field: key}
    entries = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    line = f":::MLLOG {{{entries}}}\n"
    (fuzz.folder / "log").write_bytes((LOGS / "offline.detail.txt").read_bytes() + line.encode())
    fuzz.judge(summary_of, fuzz.folder / "log")


@pytest.mark.parametrize("name", ["server", "llama_server", "server_tokens_accuracy"])
def test_accuracy_logs(fuzz, name):
    log = (LOGS / f"{name}.accuracy.json").read_bytes()
    fuzz.bytes(replies_of, log, share=2)
    fuzz.paths(replies_of)


@pytest.mark.parametrize("field", ["qsl_idx", "data", "token_data", "token_count"])
@pytest.mark.parametrize("value", ["1e400", "NaN", "null", "[]", '"é"', '"abc"', "1.5", "true", "-1", "1" * 5000])
def test_entries_of_an_accuracy_log(fuzz, field, value):
    fields = {"qsl_idx": "0", "data": '"00"', "token_data": '"00"', "token_count": "1"} | {field: value}
    entry = ", ".join(f'"{name}" : {each}' for name, each in fields.items())
    (fuzz.folder / "log").write_text(f"[\n{{ {entry} }}\n]\n")
    fuzz.judge(replies_of, fuzz.folder / "log")


@pytest.mark.parametrize("blank", [b"\r", b"\r\r", b"\x0b", b"\x0c", b"\x1c", b"\x85", "\u2028".encode(), b" \t"])
def test_what_a_text_file_takes_for_the_end_of_a_line_is_a_blank_in_an_accuracy_log(fuzz, blank):
    lines = (LOGS / "server.accuracy.json").read_bytes().split(b"\n")
    (fuzz.folder / "log").write_bytes(b"\n".join([lines[0], blank + lines[1], *lines[2:]]))
    fuzz.judge(replies_of, fuzz.folder / "log")


def test_a_log_that_is_changed_while_it_is_read_is_refused(fuzz):
    log = fuzz.folder / "log"
    log.write_bytes((LOGS / "server.accuracy.json").read_bytes())
    replies = AccuracyLog(log)
    log.write_bytes(b"[\n]\n")
    with pytest.raises(DataError, match="was changed while it was read"):
        replies[0]


def test_a_log_says_how_fast_its_run_was():
    assert samples_per_s(read_detail(LOGS / "offline.detail.txt"), scenarios.OFFLINE) == pytest.approx(91.6286)
