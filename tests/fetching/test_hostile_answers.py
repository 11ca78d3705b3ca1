"""What a server may send in place of a file: bytes without end, headers that are none, pages, and too little."""

import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from mlbench.errors import DataError
from mlbench.fetching.download import Downloader
from mlbench.fetching.sources import Artifact, RemoteFile

BODY = b"x" * 200_000


@pytest.fixture
def downloader(tmp_path):
    return Downloader(folder=tmp_path, pause=lambda seconds: None, stall_s=30)


@contextmanager
def raw_server(*parts, repeats_last=False):
    """Answer each connection with these bytes, each in a write of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    ending = threading.Event()
    sent = [0]

    def answer():
        while not ending.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(5)
                try:
                    while b"\r\n\r\n" not in connection.recv(1 << 16):
                        pass
                    for part in parts:
                        connection.sendall(part)
                        sent[0] += len(part)
                    while repeats_last and not ending.is_set():
                        connection.sendall(parts[-1])
                        sent[0] += len(parts[-1])
                except OSError:
                    continue

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/f", sent
    finally:
        ending.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def refused(downloader, url, **file):
    with pytest.raises(DataError) as caught:
        downloader.download(RemoteFile(path=file.pop("path", "f.bin"), urls=(url,), **file))
    line = str(caught.value)
    assert line.isprintable()
    assert not [path for path in downloader.folder.rglob("*") if path.is_file()]
    return line


def head(*lines, status="200 OK"):
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    ("start", "block"),
    [
        (head("Connection: close"), bytes(1 << 16)),
        (head("Transfer-Encoding: chunked"), b"10000\r\n" + bytes(1 << 16) + b"\r\n"),
    ],
    ids=["to the end of the connection", "chunked"],
)
def test_an_endless_body_ends_at_the_first_byte_past_the_size_in_the_list(downloader, start, block):
    with raw_server(start, block, repeats_last=True) as (url, sent):
        assert "the server sends more than 1000 bytes" in refused(downloader, url, most_bytes=1000)
        assert sent[0] < 32 << 20


def test_a_file_that_is_announced_longer_than_the_list_allows_is_not_begun(server, downloader):
    server.add("f", BODY)
    assert "the server has 200000 bytes, the file 100 at most" in refused(downloader, f"{server.url}/f", most_bytes=100)


def test_a_list_bounds_its_files_by_the_sizes_that_it_gives():
    artifact = Artifact(id="a", role="model", urls=("https://example.org/f",), destination="f", size_bytes=1000)
    assert [file.most_bytes for file in artifact.remote_files()] == [1000]
    guessed = replace(artifact, size_is_estimate=True)
    assert [file.most_bytes for file in guessed.remote_files()] == [2000 + (16 << 20)]
    unknown = replace(artifact, size_bytes=0)
    assert [file.most_bytes for file in unknown.remote_files()] == [16 << 30]


@pytest.mark.parametrize("rest", [b"x" * 300, b""], ids=["body", "headers"])
def test_a_byte_now_and_then_is_a_stall_in_body_and_headers(downloader, rest):
    whole = head("Content-Length: 300") + rest
    parts = [bytes([byte]) for byte in whole] if not rest else [head("Content-Length: 300"), *[b"x"] * 299]
    ticks = iter(range(0, 10**9, 50))  # each look at the clock is 50 s after the last
    slow = replace(downloader, stall_s=60, now=lambda: next(ticks))
    with raw_server(*parts[:-1] if not rest else parts) as (url, _), pytest.raises(DataError) as caught:
        slow.download(RemoteFile(path="f.bin", urls=(url,)))
    assert "of it in 100 s" in str(caught.value)


def test_a_fast_file_is_no_stall_however_long_it_takes(server, downloader):
    server.add("f", BODY * 10)
    ticks = iter(range(0, 10**9, 20))
    done = replace(downloader, stall_s=60, now=lambda: next(ticks)).download(
        RemoteFile(path="f.bin", urls=(f"{server.url}/f",))
    )
    assert done.size_bytes == 2_000_000


def test_bytes_that_trickle_do_not_renew_the_attempts(server, downloader):
    server.add("f", BODY, stops_after=[1000] * 200)
    with pytest.raises(DataError, match="the connection ended after"):
        downloader.download(RemoteFile(path="f.bin", urls=(f"{server.url}/f",)))
    assert len(server.requests) <= 40


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["Content-Length: " + "9" * 5000], "an odd length: '99999999999999999999'"),
        (["Content-Length: \xb2"], "an odd length"),
        (["Content-Length: -5"], "an odd length: '-5'"),
        (["Content-Length: 1e3"], "an odd length: '1e3'"),
        (["Content-Length: 1", "Content-Length: 20"], "the server gives two lengths that differ"),
        (["Content-Length: 1", "Content-Encoding: gzip"], "sent it packed (gzip) without being asked to"),
        (["Content-Length: 1", "Content-Encoding: \x1b[2J"], "sent it packed"),
    ],
)
def test_a_header_of_an_odd_form_is_said_in_a_line(downloader, lines, reason):
    with raw_server(head(*lines), b"x") as (url, _):
        assert reason in refused(downloader, url)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["Content-Length: 1", "Content-Range: bytes 0-0/" + "9" * 5000], "without saying which"),
        (["Content-Length: 1", "Content-Range: bytes 0-0/\u0663".encode().decode("latin-1")], "without saying which"),
        (["Content-Length: 1", "Content-Range: bytes 0-4/5"], "the server gives two lengths that differ"),
    ],
)
def test_a_range_of_an_odd_form_is_said_in_a_line(downloader, lines, reason):
    with raw_server(head(*lines, status="206 Partial"), b"x") as (url, _):
        assert reason in refused(downloader, url)


@pytest.mark.parametrize(
    "place", ["http://[::1", "http://127.0.0.1:99999999/", "/\xff\x1b[2J", "/f", "//", "file:///x"]
)
def test_a_redirection_to_nowhere_is_said_in_a_line(downloader, place):
    with raw_server(head(f"Location: {place}", "Content-Length: 0", status="302 Found")) as (url, _):
        refused(downloader, url)


def test_the_body_of_a_redirection_is_not_read(server, downloader):
    server.add("f", BODY)
    start = head(f"Location: {server.url}/f", status="302 Found")
    with raw_server(start, bytes(1 << 16), repeats_last=True) as (url, sent):
        assert downloader.download(RemoteFile(path="f.bin", urls=(url,))).size_bytes == len(BODY)
        assert sent[0] < 32 << 20


def test_a_file_that_is_packed_itself_may_be_called_so(downloader):
    packed = b"\x1f\x8b\x08" + bytes(40)
    with raw_server(head("Content-Length: 43", "Content-Encoding: x-gzip"), packed) as (url, _):
        done = downloader.download(RemoteFile(path="f.bin", urls=(f"{url}.tar.gz",)))
    assert done.size_bytes == 43


@pytest.mark.parametrize(
    "page",
    [
        b"<!-- generated -->" + b" " * 600 + b"<html>Sign in</html>",
        b"\xef\xbb\xbf<!-- x --><html>Sign in",
        b"<?xml version='1.0'?><!DOCTYPE html>",
        b"<head><title>Sign in</title>",
    ],
)
def test_a_login_page_that_begins_with_something_else_is_no_file(downloader, page):
    with raw_server(head(f"Content-Length: {len(page)}"), page[:1], page[1:]) as (url, _):
        assert "the server sent a web page, perhaps a login" in refused(downloader, url)
