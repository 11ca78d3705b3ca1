"""What a file is that is not what it should be; every reader's refusal says it."""

import gzip
import io
import zipfile

import pytest

from mlbench.errors import DataError
from mlbench.system.documents import foreign, is_file, read_json, read_text, refusal
from mlbench.system.documents.kinds import kind_of
from mlbench.toolkit import verify_file
from mlbench.toolkit.language import check_config, read_table

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"7" * 64 + b"\nsize 1577800\n"


def zipped():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a"), b"x")
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.safetensors", POINTER, "a pointer of git-lfs and not the file"),
        ("a.json", b"  <!-- x --><html>", "a web page, perhaps a login"),
        ("a.json", gzip.compress(b"{}", mtime=0), "packed by gzip"),
        ("a.json", zipped(), "a zip archive"),
        ("a.txt", "accuracy=75%".encode("utf-16"), "text in UTF-16"),
        ("a.txt", "accuracy=75%".encode("utf-16-le"), "text in UTF-16"),
        ("a.txt", "accuracy=75%".encode("utf-16-be"), "text in UTF-16"),
        ("a.txt", b"", "empty"),
        ("a.bin", bytes(200_000), "only zeros"),
        ("a.safetensors", b'{"error": "Access to model X is restricted"}', "Access to model X is restricted"),
        ("a.safetensors", b"GGUF\x03\x00", "a GGUF file"),
        ("a.json", b"\x80\x05\x95", "a pickle"),
        ("d.txt", b'"pid": 80, "tid": 80, "ts": 87044ns : version : .5a1 @ 3dd1e2b2a9\n', "LoadGen's old text form"),
    ],
)
def test_a_file_is_named_for_what_it_is(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    error = refusal(path, "it cannot be read.", hint="" if said in ("empty", "only zeros") else "Get it again.")
    assert f": it is {said}" in error.message or said in error.message
    assert error.hint
    assert error.hint != "Get it again."


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npz", zipped()),
        ("a.pt", zipped()),
        ("a.pkl.gz", gzip.compress(b"x", mtime=0)),
        ("a.html", b"<html>"),
        ("a.pkl", b"\x80\x05\x95"),
        ("a.json", b'{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}'),
        ("a.txt", b"accuracy=75%\n"),
        ("a.bin", bytes(70_000) + b"\1" + bytes(70_000)),
    ],
)
def test_what_a_name_says_already_is_no_news(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert kind_of(path) is None
    assert refusal(path, "it is odd.", hint="Get it again.").hint == "Get it again."


def test_a_document_that_can_be_parsed_is_named_too_where_it_is_of_no_use(tmp_path):
    (tmp_path / "config.json").write_text('{"error": "Access to model X is restricted"}')
    with pytest.raises(DataError, match=r"has model_type = None.*: it is the error of a server .*Access to model X"):
        check_config(tmp_path, {"model_type": ("llama",)})
    (tmp_path / "table.json").write_text('{"message": "Not Found", "status": "404"}')
    with pytest.raises(DataError, match=r'is not a list of objects: it is the error of a server \("Not Found"\)'):
        read_table(tmp_path / "table.json", texts=("output",))


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "consolidated.00.pth").touch()
    with pytest.raises(DataError, match=r"weights file not found: .*Meta's own form"):
        verify_file(tmp_path, what="weights file")


def test_folders_are_named_too(tmp_path):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/consolidated.00.pth").touch()
    assert "Meta's own form" in kind_of(tmp_path / "meta").name
    (tmp_path / "hub/snapshots/0123").mkdir(parents=True)
    (tmp_path / "hub/blobs").mkdir()
    assert str(tmp_path / "hub/snapshots/0123") in kind_of(tmp_path / "hub").remedy
    assert kind_of(tmp_path) is None


def test_readers_say_it_in_place_of_what_the_parser_stumbled_over(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(POINTER)
    assert is_file(path)
    with pytest.raises(DataError, match=r"is not JSON: .*: it is a pointer of git-lfs .* Run git lfs pull"):
        read_json(path, what="table")
    with (
        pytest.raises(DataError, match=r"a\.json is odd: of a kind: it is a pointer of git-lfs"),
        foreign(path, "is odd"),
    ):
        raise ValueError("of a kind")
    path.write_bytes("{}".encode("utf-16"))
    for replaces_errors in (True, False):
        with pytest.raises(DataError, match=r"is not text: .*: it is text in UTF-16\. Save it as UTF-8"):
            read_text(path, what="table", replaces_errors=replaces_errors)


def test_a_pipe_is_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe", "it is no file.").message == "it is no file."
