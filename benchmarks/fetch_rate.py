"""How fast `mlbench fetch` is where the network is not what limits it, against a plain copy with a digest.

``python benchmarks/fetch_rate.py --gigabytes 10`` serves one sparse file from loopback by ``sendfile``, fetches it and
verifies its published MD5, and beside that copies the same file while computing the same digest. Both write to the same
folder, in turns; the rate is the ratio of the two times. Exit status 1 where it is below 0.9.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mlbench.fetching.data_folder import only_fetch
from mlbench.fetching.fetch import Fetch
from mlbench.fetching.sources import read_sources

GOAL = 0.9
BLOCK_BYTES = 1 << 20


class SendfileServer:
    """Serves one file over HTTP, whole or from a byte on, without a copy in this process."""

    def __init__(self, file: Path) -> None:
        self._file, self._size = file, file.stat().st_size
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Return the address of the file."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/{self._file.name}"

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, self._file.open("rb") as source:
            request = b""
            while b"\r\n\r\n" not in request:
                if not (received := connection.recv(65536)):
                    return
                request += received
            head = request.decode("latin-1").lower()
            start = int(head.partition("range: bytes=")[2].partition("-")[0] or 0) if "range: bytes=" in head else 0
            lines = ["HTTP/1.1 206 Partial Content" if start else "HTTP/1.1 200 OK", 'ETag: "1"']
            lines += [f"Content-Length: {self._size - start}", "Accept-Ranges: bytes", "Connection: close"]
            lines += [f"Content-Range: bytes {start}-{self._size - 1}/{self._size}"] if start else []
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            while start < self._size:
                start += os.sendfile(connection.fileno(), source.fileno(), start, self._size - start)


def copy_with_digest(source: Path, target: Path) -> str:
    """Copy a file and return its MD5, read once."""
    digest = hashlib.md5(usedforsecurity=False)
    with source.open("rb") as reading, target.open("wb") as writing:
        while block := reading.read(BLOCK_BYTES):
            digest.update(block)
            writing.write(block)
        writing.flush()
        os.fsync(writing.fileno())
    return digest.hexdigest()


def fetch(url: str, md5: str, folder: Path) -> None:
    """Fetch the file as `mlbench fetch` does."""
    sources = folder / "sources.toml"
    sources.write_text(
        f'round = "v4.1"\n[[artifact]]\nid = "large"\nrole = "model"\nurls = ["{url}"]\n'
        f'destination = "large.bin"\nmd5 = "{md5}"\n'
    )
    with only_fetch(folder / "data") as lock:
        done = Fetch(workload="w", sources=read_sources(sources), data=folder / "data", lock=lock).run()
    assert not done.waiting and not done.failed, done


def seconds_of(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="Where files are written.  [default: the temporary folder]")
    asked = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        place = Path(name)
        source = place / "large.bin"
        with source.open("wb") as file:
            file.truncate(int(asked.gigabytes * 1e9))
        server, copied = SendfileServer(source), place / "copied.bin"
        md5 = copy_with_digest(source, copied)  # and everything is warm
        for number in range(asked.repeats):
            copied.unlink()
            copy_s = seconds_of(lambda: copy_with_digest(source, copied))
            (folder := place / "fetched").mkdir()
            fetch_s = seconds_of(lambda folder=folder: fetch(server.url, md5, folder))  # type: ignore[misc]
            shutil.rmtree(folder)
            ratios.append(copy_s / fetch_s)
            speed = asked.gigabytes / fetch_s
            print(
                f"{number + 1}: copy {copy_s:.1f} s, fetch {fetch_s:.1f} s ({speed:.2f} GB/s), ratio {ratios[-1]:.3f}"
            )
    middle = statistics.median(ratios)
    print(f"fetch at {middle:.3f} of the rate of a copy with a digest (goal {GOAL})")
    return 0 if middle >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
