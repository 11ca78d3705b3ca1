"""A fetch that is killed at any moment continues at the byte, and ends with the same files."""

import hashlib
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from mlbench.fetching.lock_file import LOCK_FILE

KILLS = int(os.environ.get("MLBENCH_TEST_KILLS", "6"))
FILE_BYTES = 8_000_000


def packed(contents):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def sources(server, rng):
    """Return a list of sources of large files, a list with blank checksums, and an archive, which the server has."""
    lines = ['round = "v4.1"']
    for name in ("a", "b"):
        content = rng.randbytes(FILE_BYTES)
        server.add(name, content)
        lines += ["[[artifact]]", f'id = "{name}"', 'role = "model"', f'urls = ["{server.url}/{name}"]']
        lines += [f'destination = "{name}"', f'md5 = "{hashlib.md5(content).hexdigest()}"']
    blank = [f"{number}.bin" for number in range(20)]
    for name in blank:
        server.add(name, rng.randbytes(100_000))
    server.add("many.md5", "".join(f"  {name}\n" for name in blank).encode())
    lines += ["[[artifact]]", 'id = "many"', 'role = "model"', f'list_url = "{server.url}/many.md5"']
    lines += [f'base = "{server.url}"', 'destination = "many"']
    archive = packed({f"{number}.JPEG": rng.randbytes(10_000) for number in range(50)})
    server.add("archive", archive)
    lines += [
        "[[artifact]]",
        'id = "archive"',
        'role = "dataset"',
        f'urls = ["{server.url}/archive"]',
        'unpack = "tar"',
    ]
    lines += ['destination = "images"', f'md5 = "{hashlib.md5(archive).hexdigest()}"']
    return "\n".join(lines)


def contents(data):
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name != LOCK_FILE
    }


def start(file, data):
    command = [sys.executable, "-P", str(Path(__file__).with_name("killed_fetch.py")), str(file), str(data)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_a_fetch_that_is_killed_ends_with_the_same_files_and_fetches_hardly_a_byte_twice(server, tmp_path):
    rng = random.Random(1)
    file = tmp_path / "sources.toml"
    file.write_text(sources(server, rng))
    with start(file, tmp_path / "whole") as unharmed:
        assert unharmed.wait() == 0, unharmed.stderr.read()
    total, server.sent_bytes = server.sent_bytes, 0
    running = {"until": 10**12}

    def kill_at(sent):
        if sent >= running["until"]:
            running["until"] = 10**12
            os.kill(running["process"].pid, signal.SIGKILL)

    server.on_block = kill_at
    data, killed, twice_bytes, resumed = tmp_path / "killed", 0, 0, 0
    for moment in [*sorted(rng.randrange(total) for _ in range(KILLS)), 10**12]:
        there, asked = stored_bytes(data), len(server.requests)
        with start(file, data) as process:
            running["process"] = process
            running["until"] = max(moment, server.sent_bytes + 1)  # not earlier: the server still sends to the last one
            killed += process.wait() != 0
            process.stderr.read()
        for path, first in server.requests[asked:]:
            twice_bytes += there.pop(path, first) - first
            resumed += first > 0
    assert killed >= KILLS - 1
    assert resumed
    assert contents(data) == contents(tmp_path / "whole")
    assert sorted((data / LOCK_FILE).read_text().splitlines()) == sorted(
        (tmp_path / "whole" / LOCK_FILE).read_text().splitlines()
    )
    assert twice_bytes <= total / 100


def stored_bytes(data):
    """Return how much of each file is there, by the name that the server knows."""
    found = [path for path in data.rglob("*") if path.is_file() and not path.name.endswith(".json")]
    return {path.name.removesuffix(".part"): path.stat().st_size for path in found if path.suffix != ".JPEG"}
