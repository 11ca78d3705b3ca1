"""TEST01 on replies: the official verdict is what verify_accuracy.py of v4.1 says of them, by hand; ours sees more."""

import struct

import pytest

from mlbench import LoggedReply
from mlbench.rules.output_compliance import compare_outputs


def label(index, value, form="<f"):
    return LoggedReply(index=index, data=struct.pack(form, value))


RIGHT = [label(index, index) for index in range(4096)]


def test_equal_replies_pass_both():
    found = compare_outputs(RIGHT[::-1], RIGHT)
    assert (found.official_passed, found.passed, found.entries) == (True, True, 4096)


def test_wrong_float_labels_pass_the_official_script_which_compares_a_byte_and_not_ours():
    wrong = [label(index, index + 1) for index in range(4096)]
    found = compare_outputs(wrong, RIGHT)
    assert (found.official_passed, found.passed) == (True, False)
    assert len(found.differing) == 4096


def test_wrong_integer_labels_fail_both():
    reference = [label(index, index, "<i") for index in range(10)]
    found = compare_outputs([label(index, index + 1, "<i") for index in range(10)], reference)
    assert (found.official_passed, found.official_differing, found.passed) == (False, 10, False)


def test_the_script_compares_a_second_reply_with_the_first_one_of_the_test():
    reference = [LoggedReply(index=1, data=b"\x01")]
    first_right = [LoggedReply(index=1, data=data) for data in (b"\x01", b"\x02", b"\x02")]
    found = compare_outputs(first_right, reference)
    assert (found.official_differing, found.differing) == (1, (1, 1))
    assert not found.official_passed


def test_a_second_wrong_reply_after_a_byte_that_agrees_is_seen_here_alone():
    reference = [LoggedReply(index=1, data=b"\x01\x07")]
    found = compare_outputs([LoggedReply(index=1, data=data) for data in (b"\x01\x07", b"\x01\x08")], reference)
    assert (found.official_passed, found.passed, found.differing) == (True, False, (1,))


def test_replies_to_samples_that_were_never_asked_pass_the_official_script_and_not_ours():
    found = compare_outputs([*RIGHT[:1], label(9999, 1)], RIGHT)
    assert (found.official_passed, found.official_absent, found.passed, found.absent) == (True, 1, False, (9999,))


def test_a_log_with_few_of_the_replies_is_incomplete():
    found = compare_outputs(RIGHT[:1], RIGHT, least=2048)
    assert (found.official_passed, found.passed) == (True, False)


@pytest.mark.parametrize("reference", [RIGHT, []])
def test_no_replies_pass_neither(reference):
    found = compare_outputs([], reference)
    assert (found.official_passed, found.passed) == (False, False)


def test_the_counts_are_printed_as_the_script_does():
    twice = [*RIGHT[:2], label(1, 7.5)]
    assert compare_outputs(RIGHT[:2], twice).counts == (
        "num_acc_log_entries = 3\n"
        "num_acc_log_duplicate_keys = 1\n"
        "num_acc_log_data_mismatch = 1\n"
        "num_perf_log_entries = 2\n"
        "num_perf_log_qsl_idx_match = 2\n"
        "num_perf_log_data_mismatch = 0\n"
        "num_missing_qsl_idxs = 0\n"
    )
