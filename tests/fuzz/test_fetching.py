"""What `mlbench fetch` gets from strangers: files of tensors, archives, manifests, its record, answers of servers."""

import bz2
import gzip
import io
import json
import lzma
import shutil
import socket
import tarfile
import threading
import zipfile

import numpy as np
import pytest
import yaml
from hypothesis import strategies as st

from mlbench.fetching.download import Downloader
from mlbench.fetching.lists import read_list
from mlbench.fetching.lock_file import LOCK_FILE, LockFile
from mlbench.fetching.snapshot_sizes import MANIFEST, snapshot_sizes
from mlbench.fetching.sources import Artifact, RemoteFile
from mlbench.fetching.structure import check_structure
from mlbench.fetching.unpacking import unpack_archive
from mlbench.system.documents import Budget, Meter, foreign
from mlbench.system.documents.manifests import parse_yaml

HEADER = {"a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]}, "__metadata__": {"format": "pt"}}
ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
TENSOR = {"type": "Tensor", "location": "0/a", "serializer": "buffer_protocol", "dtype": "torch.float32"}
SNAPSHOT = {
    "version": "0.1.0",
    "manifest": {
        "0/model/a": {**TENSOR, "shape": [2, 3], "byte_range": None},
        "0/model/b": {"type": "ChunkedTensor", "chunks": [{"offsets": [0], "tensor": {**TENSOR, "shape": [4]}}]},
    },
}


def npy():
    content = io.BytesIO()
    np.save(content, ARRAY)
    return content.getvalue()


def npz():
    content = io.BytesIO()
    np.savez_compressed(content, a=ARRAY, b=ARRAY[0])
    return content.getvalue()


def tar(form):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        for name in ("a", "folder/b", "n" * 120):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"one"))
    return content.getvalue()


def zipped():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a", "folder/b"):
            archive.writestr(zipfile.ZipInfo(name), b"one" * 100)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npy", npy()),
        ("a.npz", npz()),
        ("a.gz", gzip.compress(b"one" * 1000, mtime=0)),
        ("a.json", json.dumps(SNAPSHOT).encode()),
        ("a.parquet", b"PAR1" + bytes(20) + b"\x08\0\0\0PAR1"),
        ("a.jpg", b"\xff\xd8\xff\xe0\0\4ab\xff\xda\xff\xd9"),
    ],
    ids=["npy", "npz", "gzip", "json", "parquet", "jpeg"],
)
def test_files_that_no_checksum_vouches_for(fuzz, name, content):
    fuzz.bytes(lambda file: check_structure(file, name), content, share=2)


def test_headers_of_tensors(fuzz):
    def read(file):
        header = file.read_bytes()
        target = file.with_suffix(".part")
        target.write_bytes(len(header).to_bytes(8, "little") + header + bytes(32))
        check_structure(target, "a.safetensors")

    fuzz.json(read, HEADER, share=2)


def test_headers_of_arrays(fuzz):
    head, _, body = npy().partition(b"{")

    def read(file):
        text = file.read_bytes()
        target = file.with_suffix(".part")
        target.write_bytes(head[:8] + len(text).to_bytes(2, "little", signed=False) + text + bytes(48))
        check_structure(target, "a.npy")

    text = b"{" + body[: -ARRAY.nbytes]
    fuzz.bytes(lambda file: read(file) if file.stat().st_size < 1 << 16 else None, text, share=2)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress], ids=["plain", "gz", "xz", "bz2"])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_tars_are_unpacked_or_refused(fuzz, pack, form):
    """Damage comes before packing, so that the packing's checksum does not find it."""

    def read(file):
        packed = file.with_suffix(".packed")
        packed.write_bytes(pack(file.read_bytes()))
        unpack_archive(packed, "tar", file.with_suffix(".out"))
        shutil.rmtree(file.with_suffix(".out"))

    fuzz.bytes(read, tar(form))


@pytest.mark.parametrize("member", ["", "a", "*b"])
def test_zips_are_unpacked_or_refused(fuzz, member):
    def read(file):
        out = file.with_suffix(".out")
        unpack_archive(file, "zip", out, member=member)
        out.unlink() if member else shutil.rmtree(out)

    fuzz.bytes(read, zipped())


def test_packed_tars(fuzz):
    def read(file):
        unpack_archive(file, "tar", file.with_suffix(".out"))
        shutil.rmtree(file.with_suffix(".out"))

    for pack in (gzip.compress, lzma.compress, bz2.compress):
        fuzz.bytes(read, pack(tar(tarfile.GNU_FORMAT)))


def test_manifests(fuzz):
    fuzz.json(lambda file: snapshot_sizes(file.parent), SNAPSHOT, MANIFEST, share=2)
    fuzz.bytes(lambda file: snapshot_sizes(file.parent), yaml.safe_dump(SNAPSHOT).encode(), MANIFEST, share=2)


def test_yaml_of_anchors_and_aliases(fuzz):
    def read(text):
        with foreign("manifest", "is no YAML") as meter:
            value = parse_yaml(text, meter)
            assert len(json.dumps(value, default=str)) < 10**8

    node = st.sampled_from([*("&a", "&b", "*a", "*b", "x", "1", "!!set"), *"[]{}:,", "<<", "\n", "  ", "- ", "? "])
    fuzz.draw(st.lists(node, max_size=40), lambda parts: fuzz.judge(read, " ".join(parts)), share=3)


def test_records_of_a_data_folder(fuzz):
    entries = [
        {
            "format": 1,
            "path": "w/a",
            "size_bytes": 3,
            "algorithm": "md5",
            "digest": "0",
            "verified_by": "x",
            "source": "y",
        },
        {"format": 1, "artifact": "w/a", "round": "v4.1", "licence": "", "gate": "none"},
    ]

    def read(file):
        (file.parent / LOCK_FILE).write_bytes(file.read_bytes() + b"\n")
        for path, entry in LockFile.read(file.parent).files.items():
            assert (type(path), type(entry.size_bytes)) == (str, int)

    for entry in entries:
        fuzz.json(read, entry)


def test_lists_of_files(fuzz):
    artifact = Artifact(id="a", role="dataset", list_url="https://example.org/list", base="https://example.org")
    fuzz.bytes(lambda file: read_list(file, artifact), f"{'0' * 32}  a/b.bin\n  c.bin\n".encode(), share=2)


@pytest.fixture
def scripted(tmp_path):
    """Return a function that downloads from a server which sends exactly these bytes."""
    listening = socket.create_server(("127.0.0.1", 0))
    answers = []

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    while b"\r\n\r\n" not in connection.recv(1 << 16):
                        pass
                    connection.sendall(answers[-1])
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/f"
    downloader = Downloader(folder=tmp_path / "got", pause=lambda seconds: None, stall_s=10)

    def download(file):
        answers.append(file.read_bytes())
        shutil.rmtree(downloader.folder, ignore_errors=True)
        downloader.download(RemoteFile(path="f.bin", urls=(url,), most_bytes=1 << 20))

    yield download
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


ANSWERS = {
    "whole": ["HTTP/1.1 200 OK", "Content-Length: 3", 'ETag: "x"', "Content-Type: text/plain", "", "abc"],
    "chunked": ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "3", "abc", "0", "", ""],
}


@pytest.mark.parametrize("kind", list(ANSWERS))
def test_answers_of_a_server(fuzz, scripted, kind):
    fuzz.bytes(scripted, "\r\n".join(ANSWERS[kind]).encode())


def test_redirections_of_a_server(fuzz, scripted):
    valid = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    places = [
        b"http://[::1",
        b"//",
        b"http://127.0.0.1:99999999/",
        b"\xff",
        b"/\x1b[2J",
        b"file:///etc/passwd",
        b"",
        b"http://",
    ]
    for place in places:
        (fuzz.folder / "answer").write_bytes(valid.replace(b"/other", place))
        fuzz.judge(scripted, fuzz.folder / "answer")


@pytest.mark.parametrize("what", ["bytes", "members", "nodes"])
def test_budgets_end_what_goes_past_them(fuzz, what):
    def spend(counts):
        with foreign("file", "is odd", budget=Budget(**{what: 100})) as meter:
            assert isinstance(meter, Meter)
            for count in counts:
                meter.spend(what, count)
        assert sum(counts) <= 100

    fuzz.draw(st.lists(st.integers(0, 60), max_size=5), lambda counts: fuzz.judge(spend, counts))
