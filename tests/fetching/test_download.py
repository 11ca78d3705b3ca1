"""A file comes whole and verified, or not at all: twelve ways in which a server or a disk can fail."""

import hashlib
import random
import resource
from contextlib import contextmanager
from dataclasses import replace

import pytest
from scripted_server import Served

from mlbench.errors import DataError, StorageError
from mlbench.fetching.download import Downloader
from mlbench.fetching.sources import Digest, RemoteFile

CONTENT = random.Random(5).randbytes(300_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def remote(server, *paths, md5=MD5, path="model.bin", **more):
    digests = (Digest(algorithm="md5", value=md5),) if md5 else ()
    urls = tuple(each if "://" in each else f"{server.url}/{each}" for each in paths)
    return RemoteFile(path=path, urls=urls, digests=digests, **more)


@pytest.fixture
def downloader(tmp_path):
    return Downloader(folder=tmp_path, pause=lambda seconds: None, stall_s=30)


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def refused(downloader, file):
    """Return the sentence that a user reads; nothing bears the file's name."""
    with pytest.raises(DataError) as caught:
        downloader.download(file)
    assert not (downloader.folder / file.path).exists()
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_comes_with_its_digest_and_leaves_nothing_else(server, downloader):
    server.add("a", CONTENT)
    done = downloader.download(remote(server, "a"))
    assert (downloader.folder / "model.bin").read_bytes() == CONTENT
    assert (done.digest.value, done.size_bytes, done.verified_by) == (MD5, 300_000, "published digest")
    assert done.source == f"{server.url}/a"
    assert files_in(downloader.folder) == ["model.bin"]


def test_git_names_a_file_by_a_hash_that_begins_with_its_length(server, downloader):
    server.add("a", b"what is up, doc?")
    digest = Digest(algorithm="git_blob_sha1", value="bd9dbf5aae1a3862dd1526723246b20206e5fc37")
    downloader.download(RemoteFile(path="a", urls=(f"{server.url}/a",), digests=(digest,)))
    assert (downloader.folder / "a").read_bytes() == b"what is up, doc?"


def test_the_next_address_serves_where_the_first_does_not(server, downloader):
    server.add("gone", b"", status=404)
    server.add("b", CONTENT)
    assert downloader.download(remote(server, "gone", "b")).source == f"{server.url}/b"


def test_a_connection_that_breaks_is_continued_at_the_same_byte(server, downloader):
    server.add("a", CONTENT, stops_after=[100_000, 50_000])
    downloader.download(remote(server, "a"))
    assert server.requests == [("a", 0), ("a", 100_000), ("a", 150_000)]
    assert server.sent_bytes == len(CONTENT)


def test_a_server_without_ranges_sends_all_of_it_again(server, downloader):
    server.add("a", CONTENT, stops_after=[100_000], takes_ranges=False)
    downloader.download(remote(server, "a"))
    assert (downloader.folder / "model.bin").read_bytes() == CONTENT
    assert server.sent_bytes == 100_000 + len(CONTENT)


def test_a_server_without_ranges_that_always_breaks_is_given_up(server, downloader):
    server.add("a", CONTENT, stops_after=[100_000] * 50, takes_ranges=False)
    assert "the connection ended after 100000 of 300000 bytes" in refused(downloader, remote(server, "a"))
    assert len(server.requests) <= 6


def test_another_length_than_is_known_is_refused_before_its_first_byte(server, downloader):
    server.add("a", CONTENT)
    assert "the server has 300000 bytes, the file 300001" in refused(
        downloader, remote(server, "a", size_bytes=300_001)
    )
    assert files_in(downloader.folder) == []


def test_a_body_longer_than_announced_is_another_file(server, downloader):
    server.add("a", CONTENT, announced=1000)
    assert "it has md5" in refused(downloader, remote(server, "a"))


def test_a_login_page_in_place_of_a_file_is_refused(server, downloader):
    server.add("page", b"<html>Sign in</html>", headers={"Content-Type": "text/html; charset=utf-8"})
    server.add("disguised", b"\n<!DOCTYPE html><title>Sign in</title>")
    for path in ("page", "disguised"):
        line = refused(downloader, remote(server, path, md5=""))
        assert "the server sent a web page, perhaps a login, in place of the file. Sign in there" in line
    assert files_in(downloader.folder) == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_how_to_bring_the_file_by_hand(server, downloader, status):
    server.add("a", b"", status=status)
    line = refused(downloader, remote(server, "a"))
    assert f"the server refuses it (status {status})" in line
    assert line.endswith("give it with --from PATH.")
    assert len(server.requests) == 1


def test_a_redirection_is_followed_elsewhere_only_where_a_digest_decides(server, downloader):
    server.add("b", CONTENT)
    elsewhere = f"{server.url.replace('127.0.0.1', 'localhost')}/b"
    server.add("a", b"", status=302, headers={"Location": elsewhere})
    assert "no published digest would tell another file" in refused(downloader, remote(server, "a", md5=""))
    downloader.download(remote(server, "a"))
    assert (downloader.folder / "model.bin").read_bytes() == CONTENT


def test_a_redirection_to_a_file_of_this_machine_is_refused(server, downloader, tmp_path):
    (tmp_path / "secret").write_bytes(CONTENT)
    server.add("a", b"", status=302, headers={"Location": f"file://{tmp_path}/secret"})
    refused(downloader, remote(server, "a"))


def test_a_server_that_stalls_is_given_up_and_its_bytes_are_kept(server, downloader):
    server.add("a", CONTENT, stops_after=[100_000] + [0] * 20, stalls=True)
    impatient = replace(downloader, stall_s=0.6)
    assert "the server sent nothing for 1 s" in refused(impatient, remote(server, "a"))
    assert (downloader.folder / "model.bin.part").stat().st_size == 100_000


def test_a_truncated_file_is_never_taken_for_a_whole_one_and_is_continued_later(server, downloader):
    served = server.add("a", CONTENT, stops_after=[100_000] + [0] * 20)
    assert "the connection ended" in refused(downloader, remote(server, "a"))
    assert files_in(downloader.folder) == ["model.bin.part", "model.bin.part.json"]
    served.stops_after.clear()
    downloader.download(remote(server, "a"))
    assert server.requests[-1] == ("a", 100_000)
    assert files_in(downloader.folder) == ["model.bin"]


def test_a_file_that_changes_between_two_parts_is_fetched_anew(server, downloader):
    def change(served: Served) -> None:
        served.content, served.then = CONTENT, None

    server.add("a", b"old" * 100_000, stops_after=[100_000], then=change)
    done = downloader.download(remote(server, "a", md5=""))
    assert done.digest.value == SHA256
    assert (downloader.folder / "model.bin").read_bytes() == CONTENT


def test_a_file_that_always_changes_is_given_up(server, downloader):
    def change(served: Served) -> None:
        served.content = bytes([len(server.requests)]) * 300_000

    server.add("a", b"", stops_after=[100_000] * 50, then=change)
    server.files["a"].content = CONTENT
    assert "the file changed on the server between two parts" in refused(downloader, remote(server, "a", md5=""))


def test_parts_that_nothing_vouches_for_are_not_joined(server, downloader):
    server.add("a", CONTENT, stops_after=[100_000], etag=None)
    downloader.download(remote(server, "a", md5=""))
    assert [start for _, start in server.requests] == [0, 0]


def test_another_file_than_the_published_one_is_thrown_away(server, downloader):
    server.add("a", b"x" * 300_000)
    line = refused(downloader, remote(server, "a"))
    assert f"it has md5 {hashlib.md5(b'x' * 300_000).hexdigest()[:12]}..., and {MD5[:12]}... is published" in line
    assert files_in(downloader.folder) == []


def test_another_file_than_at_the_first_use_is_thrown_away(server, downloader):
    server.add("a", b"x" * 300_000)
    with pytest.raises(DataError, match="is the one at its first use"):
        downloader.download(remote(server, "a", md5=""), Digest(algorithm="sha256", value=SHA256))


def test_a_connection_that_is_not_secure_is_not_used(server, downloader):
    server.add("a", CONTENT)
    line = refused(downloader, remote(server, f"{server.url.replace('http', 'https')}/a"))
    assert "the connection is not secure" in line
    assert server.sent_bytes == 0


@contextmanager
def files_no_larger_than(limit_bytes):
    """Let writing fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_said_and_the_download_continues_on_more_room(server, downloader):
    server.add("a", CONTENT)
    with files_no_larger_than(100_000), pytest.raises(StorageError, match=r"cannot be written: .*\. Make room"):
        downloader.download(remote(server, "a"))
    assert files_in(downloader.folder) == ["model.bin.part", "model.bin.part.json"]
    downloader.download(remote(server, "a"))
    assert server.requests[-1] == ("a", 100_000)
    assert (downloader.folder / "model.bin").read_bytes() == CONTENT


def test_a_file_of_a_known_form_is_verified_by_it_where_no_digest_is_published(server, downloader):
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    whole = len(header).to_bytes(8, "little") + header + bytes(8)
    server.add("whole", whole)
    server.add("short", whole[:-1])
    done = downloader.download(remote(server, "whole", md5="", path="model.safetensors"))
    assert done.verified_by == "structure"
    assert "its header describes 70 bytes, and it has 69" in refused(
        downloader, remote(server, "short", md5="", path="other.safetensors")
    )


def test_no_token_and_no_cookie_is_sent(server, downloader, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server.add("a", CONTENT)
    downloader.download(remote(server, "a"))
    assert set(server.agents[0]) == {"Accept-Encoding", "Host", "User-Agent", "Connection"}
