"""The folders of compliance tests that are written are those that a tree is checked for."""

import hashlib
import shutil

import pytest
from whole_tree import TEST05, WholeTree, detail_of, write

from mlbench.errors import DataError, StorageError
from mlbench.submission.checking.whole_tree import check_tree
from mlbench.submission.compliance_files import TestFiles, shorten_log, write_test

LINE = '{ "seq_id" : 0, "qsl_idx" : 1, "data" : "00" },\n'
SPEED = "Verifying performance.\nTEST PASS\n"


@pytest.fixture
def logs(tmp_path):
    """LoadGen's logs of a test, as long as a submission wants them."""

    def logs(seeds=None):
        folder = tmp_path / "logs"
        detail = detail_of("resnet50", "Offline", seeds) if seeds else detail_of("resnet50", "Offline")
        write(folder / "mlperf_log_detail.txt", detail)
        write(folder / "mlperf_log_summary.txt", "A fixture.\n")
        write(folder / "mlperf_log_accuracy.json", f"[\n{LINE * 1000}]\n")
        return folder

    return logs


def findings_of(tree):
    return [each for each in check_tree(tree.root).findings if "compliance" in each.path]


@pytest.fixture
def tree(tmp_path):
    return WholeTree(tmp_path / "tree").add("sys", "datacenter", {"resnet50": ("Server", "Offline")})


@pytest.mark.parametrize(
    ("files", "seeds"),
    [
        (TestFiles(test="TEST01", performance=SPEED, accuracy="Verifying accuracy.\nTEST PASS\n"), None),
        (TestFiles(test="TEST04", performance=SPEED), None),
        (TestFiles(test="TEST05", performance=SPEED), TEST05),
        (
            TestFiles(
                test="TEST01",
                performance=SPEED,
                accuracy="Verifying accuracy.\nTEST FAIL\n",
                scores=("accuracy=76.000%, good=1, total=1", "accuracy=76.100%, good=1, total=1"),
            ),
            None,
        ),
    ],
    ids=["TEST01", "TEST04", "TEST05", "TEST01 by scores"],
)
def test_a_tree_with_a_written_test_is_accepted(tree, logs, files, seeds):
    place = tree.compliance("sys", "resnet50", "Offline")
    shutil.rmtree(place / files.test)
    assert findings_of(tree)
    written = write_test(place, files, logs(seeds))
    assert written == place / files.test
    assert [each for each in findings_of(tree) if not each.is_note] == []


def test_the_hash_beside_a_shortened_log_is_that_of_the_whole(tmp_path, logs):
    written = write_test(tmp_path, TestFiles(test="TEST01", performance=SPEED, accuracy="TEST PASS\n"), logs())
    digest = hashlib.sha256((logs() / "mlperf_log_accuracy.json").read_bytes()).hexdigest()
    assert (written / "accuracy/accuracy.txt").read_text() == f"hash={digest}\n"


def test_scores_that_are_too_far_apart_are_refused(tree, logs):
    files = TestFiles(
        test="TEST01",
        performance=SPEED,
        accuracy="TEST FAIL\n",
        scores=("accuracy=76.000%, good=1, total=1", "accuracy=70.000%, good=1, total=1"),
    )
    write_test(tree.compliance("sys", "resnet50", "Offline"), files, logs())
    assert [each.rule for each in findings_of(tree)] == ["compliance_accuracy"]


def test_a_test_about_tokens_has_no_performance_folder_and_is_accepted(tmp_path, logs):
    tree = WholeTree(tmp_path / "tree").add("sys", "datacenter", {"mixtral-8x7b": ("Server", "Offline")})
    report = "First token check pass: Skipped\nEOS check pass: True\nSample length check pass: True\n"
    place = write_test(
        tree.compliance("sys", "mixtral-8x7b", "Offline"), TestFiles(test="TEST06", accuracy=report), logs()
    )
    assert sorted(each.name for each in place.iterdir()) == ["accuracy", "verify_accuracy.txt"]
    assert [each for each in findings_of(tree) if not each.is_note] == []


def test_a_long_log_keeps_its_ends_and_the_hash_of_the_whole(tmp_path, logs):
    source = logs() / "mlperf_log_accuracy.json"
    digest = shorten_log(source, tmp_path / "short.json")
    whole, short = source.read_bytes(), (tmp_path / "short.json").read_bytes()
    assert digest == hashlib.sha256(whole).hexdigest()
    assert short == whole[:4096] + b"\n\n...\n\n" + whole[-4096:]


def test_a_log_that_cannot_be_read_leaves_nothing_behind(tmp_path):
    with pytest.raises(DataError, match=r"mlperf_log_summary\.txt cannot be copied: No such file"):
        write_test(tmp_path, TestFiles(test="TEST04", performance=SPEED), tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="TEST04 cannot be written"):
        write_test(tmp_path / "file", TestFiles(test="TEST04", performance=SPEED), tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
