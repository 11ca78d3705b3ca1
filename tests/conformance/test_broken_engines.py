"""Engines that misuse what they are given, lie about tokens or leave something behind: each is caught and named."""

import os
import re
import resource
import signal
import sys

import pytest

from mlbench.conformance import engine_checks, loadgen_checks, process_checks, speed_checks
from mlbench.conformance.kit import CHECKS_OF_ENGINES
from mlbench.errors import ConformanceError
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM

ONE, EIGHT, ALL = (
    engine_checks.answers_one_at_a_time,
    engine_checks.answers_eight_at_a_time,
    engine_checks.answers_all_at_once,
)
FORM, SAMPLES, FACTS = (
    engine_checks.replies_have_the_promised_form,
    engine_checks.leaves_samples_alone,
    engine_checks.reports_facts_as_json,
)
TOKENS, COUNTS, FIRST = (
    loadgen_checks.passes_loadgen_with_tokens,
    speed_checks.counts_the_tokens_it_gives,
    speed_checks.reports_the_first_token_it_gives,
)
SINGLE, OFFLINE_TEST = loadgen_checks.passes_loadgen_single_stream, loadgen_checks.passes_loadgen_offline

MISUSES = [
    ("floats-for-counts", OFFLINE_TEST, "token count is a float, expected an integer"),
    ("texts-for-counts", OFFLINE_TEST, "token count is a str, expected an integer"),
    ("counts-that-raise", OFFLINE_TEST, "complete.. raised RuntimeError: no number today"),
    ("no-array", ONE, "complete.. raised TypeError: 'int' object is not iterable"),
    ("array-without-dimensions", ONE, "complete.. raised TypeError: iteration over a 0-d array"),
    ("array-of-objects", FORM, "the reply is object, expected float32"),
    ("other-byte-order", FORM, "the reply is >f4, expected float32"),
    ("lists-for-arrays", FORM, "the reply is a list, expected a NumPy array"),
    ("outputs-that-raise", ONE, "complete.. raised RuntimeError: no items today"),
    ("outputs-without-end", ALL, "got 28 outputs for 27 samples"),
    ("one-row-for-a-query", EIGHT, "got 1 outputs for 8 samples"),
    ("ids-for-samples", ONE, "a reply is to something that is not Samples: complete.. raised AttributeError"),
    ("nothing-for-samples", ONE, "a reply is to something that is not Samples: complete.. raised TypeError"),
    ("lists-for-ids", ONE, "a reply is to something that is not Samples: complete.. raised TypeError"),
    ("ids-of-nobody", ONE, "were answered and never submitted"),
    ("empties-samples", ONE, "submit raised AttributeError: 'tuple' object has no attribute 'clear'"),
    ("replaces-samples", SAMPLES, "`samples.ids` was changed"),
    ("number-for-a-reason", ONE, "was given up: 5"),
    ("bytes-in-a-reason", ONE, re.escape(r"was given up: caf\udce9 \x1b[31m")),
    ("error-without-text", ONE, "submit raised Unreadable: .a Unreadable whose text cannot be read: RuntimeError"),
    ("exit-in-submit", ONE, "submit raised SystemExit: 0"),
    ("ctrl-c-in-submit", ONE, "submit raised KeyboardInterrupt: of its own"),
]

LANGUAGE = [
    ("token-counts-as-floats", COUNTS, "prompt 0: token count 12.0 is a float, expected an integer"),
    ("token-counts-as-floats", TOKENS, "token count is a float, expected an integer"),
    ("token-counts-in-a-float-array", TOKENS, "token count is a float32, expected an integer"),
    ("token-counts-beyond-64-bits", TOKENS, "token count 9223372036854775808 is more than any answer contains"),
    ("token-counts-below-zero", TOKENS, "token counts missing or below 1"),
    ("token-counts-as-truths", COUNTS, "prompt 0: token count True is a bool, expected an integer"),
    ("token-counts-as-truths", TOKENS, "token count is a bool, expected an integer"),
    ("token-counts-as-texts", TOKENS, "token count is a str, expected an integer"),
    ("token-counts-that-raise", TOKENS, "complete.. raised RuntimeError: no number today"),
    ("token-counts-without-end", TOKENS, "token counts missing or below 1"),
    ("token-counts-too-few", TOKENS, "token counts missing or below 1"),
    ("no-token-counts", TOKENS, "no token count, and this workload is judged by tokens"),
    ("first-token-as-a-float", TOKENS, "first token is float64, expected an integer"),
    ("first-token-as-an-object", TOKENS, "first token is object, expected an integer"),
    ("first-token-of-no-size", TOKENS, "empty first token"),
    ("first-token-without-dimensions", TOKENS, "first token of no row samples given for 1"),
    ("first-token-that-raises", TOKENS, "first_token.. raised RuntimeError: no"),
    ("first-token-last", FIRST, "first token None was reported"),
    ("first-token-last", TOKENS, "no first token was reported before the answer"),
    ("first-token-of-nobody", TOKENS, "first token after the reply, or never asked for"),
    ("tokens-as-floats", TOKENS, "wrong dtype float32, expected int64"),
    ("tokens-as-lists", TOKENS, "reply is a list, not a NumPy array"),
    ("tokens-in-rows", TOKENS, re.escape("wrong shape (1, 12), expected (any)")),
    ("falling-silent", TOKENS, "failed: no reply within"),
    ("forgetting-a-prompt", TOKENS, "sample 3: failed: no reply within"),
    ("thread-that-dies", TOKENS, "failed: no reply within"),
    ("leaving-in-an-answer", TOKENS, "failed: SystemExit: 0"),
]

STATEMENTS = [
    ("nan-in-statistics", FACTS, r"Engine.statistics\(\) returns values that JSON cannot represent: ValueError"),
    ("infinity-in-statistics", FACTS, r"Engine.statistics\(\) returns values that JSON cannot represent: ValueError"),
    (
        "bytes-in-statistics",
        FACTS,
        r"Engine.statistics\(\) returns values that JSON cannot represent: UnicodeEncodeError",
    ),
    ("numbers-for-keys", FACTS, r"Engine.statistics\(\) has the key 8, expected text"),
    ("statistics-without-end", FACTS, r"Engine.statistics\(\) returns values that JSON cannot represent: ValueError"),
    ("statistics-that-raise", FACTS, "RuntimeError: no statistics today"),
    ("list-for-statistics", FACTS, r"Engine.statistics returned a list, not EngineStatistics"),
    ("dictionary-for-statistics", FACTS, r"Engine.statistics returned a dict, not EngineStatistics"),
    ("text-for-a-count", FACTS, r"Engine.statistics\(\) returns '12' as padding_samples"),
    ("texts-for-calls", FACTS, r"calls\(\) returns a str"),
    ("number-for-a-capacity", FACTS, r"capacity\(\) returns a int"),
]

LEFT_BEHIND = [
    ("leaving-a-thread", process_checks.leaves_nothing_running, "the threads left-behind.* run on"),
    ("leaving-a-process", process_checks.leaves_nothing_running, "the processes .* run on"),
    ("forging", process_checks.leaves_the_process_alone, "outcome.* was written to a pipe that the backend did not"),
    ("closing-pipes", process_checks.leaves_the_process_alone, "a pipe that the backend did not open was closed"),
    ("moving", process_checks.leaves_the_process_alone, "the working folder was .*, and is /"),
    ("ignoring-signals", process_checks.leaves_the_process_alone, "the handler of SIGTERM was"),
    ("closing-output", process_checks.leaves_the_process_alone, "descriptor 1 was file .*, and is closed"),
    ("moving-away", process_checks.leaves_the_process_alone, "the working folder was .*, and is removed"),
    ("reaping", process_checks.leaves_the_process_alone, "the handler of SIGCHLD was"),
    ("setting-an-alarm", process_checks.leaves_the_process_alone, "the timer of SIGALRM was not set, and is set"),
    ("masking-modes", process_checks.leaves_the_process_alone, "the mask of new files' modes was .*, and is 0o777"),
    ("allowing-few-files", process_checks.leaves_the_process_alone, "the limit RLIMIT_NOFILE was"),
    ("silencing-print", process_checks.leaves_the_process_alone, "sys.stdout was .*, and is NoneType"),
    ("leaving-in-flush", SINGLE, "flush failed: SystemExit: 0"),
]

WAITING = re.compile("no samples|never submitted|run on")
"""What is found only when patience has run out; all else has time, on a crowded machine too."""

SILENT = re.compile("no reply within")
"""Likewise, but samples that are answered must have time for that before."""


def patience_s(words):
    """Return how long the check whose finding has these words waits."""
    if SILENT.search(words):
        return 5
    return 0.3 if WAITING.search(words) else 20


CAUGHT = MISUSES + LANGUAGE + STATEMENTS + LEFT_BEHIND


@pytest.fixture
def cleaned_up(monkeypatch, tmp_path):
    """Put right what an engine leaves behind in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD)}
    output, mask, files = os.dup(1), os.umask(0o022), resource.getrlimit(resource.RLIMIT_NOFILE)
    os.umask(mask)
    yield
    signal.alarm(0)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    os.dup2(output, 1)
    os.close(output)
    os.umask(mask)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    left = sys.modules["mlbench_broken.processes"]
    left.LET_GO.set()
    left.LET_GO.clear()
    for process in left.LEFT:
        process.communicate()
    left.LEFT.clear()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("cleaned_up")
@pytest.mark.thorough("kit", first_of="check")
@pytest.mark.parametrize(("name", "check", "words"), CAUGHT, ids=[f"{case[0]}-{case[1].__name__}" for case in CAUGHT])
def test_a_broken_engine_is_caught_by_the_check_meant_for_it(on_trial, name, check, words):
    with pytest.raises(ConformanceError, match=words) as caught:
        check(on_trial(name, patience_s=patience_s(words)))
    assert caught.value.hint


def test_at_least_thirty_backends_are_broken_in_these_ways():
    assert len({name for name, _, _ in CAUGHT}) >= 30


@pytest.mark.parametrize("check", [TOKENS, COUNTS, FIRST], ids=lambda check: check.__name__)
def test_an_engine_that_speaks_as_it_should_passes_the_checks_of_tokens(on_trial, check):
    check(on_trial("speaker", patience_s=20))


FAULTS = [
    ("one-row-for-a-query", MULTI_STREAM, "1 outputs for 8 samples"),
    ("array-without-dimensions", OFFLINE, "the outputs are an array without dimensions, for 64 samples"),
    ("array-of-objects", SINGLE_STREAM, "wrong dtype object, expected float32"),
    ("other-byte-order", SINGLE_STREAM, "wrong dtype >f4, expected float32"),
    ("outputs-that-raise", SERVER, "complete.. raised RuntimeError: no length today|no items today"),
    ("outputs-without-end", OFFLINE, "65 outputs for 64 samples"),
    ("ids-for-samples", SINGLE_STREAM, "the reply is to a list, not to Samples"),
    ("floats-for-ids", SINGLE_STREAM, "sample id is a float, expected an integer"),
    ("lists-for-ids", OFFLINE, "sample id is a list, expected an integer"),
    ("ids-that-raise", SERVER, "complete.. raised RuntimeError: no number today"),
    ("ids-of-nobody", SINGLE_STREAM, "answered twice, or never asked"),
    ("empties-samples", OFFLINE, "failed: AttributeError: 'tuple' object has no attribute 'clear'"),
    ("bytes-in-a-reason", OFFLINE, re.escape(r"failed: caf\udce9 \x1b[31m")),
    ("exit-in-submit", SINGLE_STREAM, "failed: SystemExit: 0"),
    ("ctrl-c-in-submit", SINGLE_STREAM, "failed: KeyboardInterrupt: of its own"),
]


@pytest.mark.thorough("kit", but=["outputs-that-raise-Server", "ids-of-nobody-SingleStream"])
@pytest.mark.parametrize(("name", "scenario", "words"), FAULTS, ids=[f"{case[0]}-{case[1].name}" for case in FAULTS])
def test_a_run_under_loadgen_ends_and_says_what_the_engine_did(on_trial, name, scenario, words):
    faults = loadgen_checks.loadgen_faults(on_trial(name, patience_s=2), scenario)
    assert re.search(words, faults[0])
    assert all(fault.isprintable() for fault in faults)


def test_checks_of_an_engine_find_nothing_wrong_with_subclasses_of_arrays(on_trial):
    """A memory map is an array too; its numbers are copied while it is there."""
    subject = on_trial("mapped", patience_s=20)
    for check in (ONE, EIGHT, ALL, FORM):
        check(subject)
    for scenario in (SINGLE_STREAM, OFFLINE):
        assert loadgen_checks.loadgen_faults(subject, scenario) == []


def test_every_engine_check_of_this_file_is_a_check_of_the_kit():
    assert {check for _, check, _ in CAUGHT} <= set(CHECKS_OF_ENGINES)
