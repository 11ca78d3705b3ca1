"""Makes the runs in this folder, under the official settings and at the official durations: the README says which.

``python tests/data/loadgen_logs/make_logs.py FOLDER [NAME]...`` makes what is missing in a working folder, all of it
side by side, and packs it. Names are workloads; none: all. Every run is an
`mlbench run` and every compliance test an `mlbench audit`, of the null backend, which waits and computes nothing. It
takes about half an hour and a core.

``python tests/data/loadgen_logs/make_logs.py --records [NAME]...`` makes nothing anew: the records become what the
product says of the same logs now.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mlbench.discovery import Plugins
from mlbench.measurement.rebuilding import rebuild
from mlbench.records.run_record import RunRecord, read

HERE = Path(__file__).parent
MACHINE = "bench-1"
MLBENCH = (sys.executable, "-m", "mlbench")
TRIES = 3
"""How often a run or test is made until it passes: a busy machine makes one late or slow now and then."""
BETWEEN_STARTS_S = 2.0
LEFT_OUT = ("log.txt", "mlperf_log_trace.json")

_REPLIES, _TEXT, _NUMBERS = "mlperf_log_accuracy.json", ".text", ".numbers"
_ENTRY, _BLANK = re.compile(rb'\{ "seq_id" : (\d+), "qsl_idx" : (\d+),'), b"{ #,"

ONE_BY_ONE = "backend.delay_ms={} load.expected_latency_ns={}"
AT_A_RATE = "backend.delay_ms={} load.target_qps={}"
ALL_AT_ONCE = "backend.service_ms={} backend.service_spread=0.1 load.target_qps={}"
"""Offline: every answer takes so long, one after another; LoadGen sends what 660 s take at the rate."""
RUNS: dict[str, Mapping[str, str]] = {
    "resnet50": {
        "SingleStream": ONE_BY_ONE.format(8, 5_000_000),
        "MultiStream": ONE_BY_ONE.format(80, 50_000_000),
        "Server": AT_A_RATE.format(3, 20),
        "Offline": ALL_AT_ONCE.format(5, 190),
    },
    "retinanet": {
        "SingleStream": ONE_BY_ONE.format(15, 9_000_000),
        "MultiStream": ONE_BY_ONE.format(120, 70_000_000),
        "Server": AT_A_RATE.format(20, 10),
        "Offline": ALL_AT_ONCE.format(10, 95),
    },
    "bert": {
        "SingleStream": ONE_BY_ONE.format(35, 20_000_000),
        "Server": AT_A_RATE.format(30, 10),
        "Offline": ALL_AT_ONCE.format(25, 38),
    },
    "dlrm-v2": {"Server": AT_A_RATE.format(10, 50), "Offline": ALL_AT_ONCE.format(1.6, 590)},
    "3d-unet": {"SingleStream": ONE_BY_ONE.format(1000, 1_900_000_000), "Offline": ALL_AT_ONCE.format(950, 1)},
    "gptj": {
        "SingleStream": f"backend.tokens=100 {ONE_BY_ONE.format(16, 30_400_000)}",
        "Server": f"backend.tokens=100 {AT_A_RATE.format(500, 21.5)}",
        "Offline": f"backend.tokens=100 {ALL_AT_ONCE.format(16, 55)}",
    },
    "llama2-70b": {
        "Server": f"backend.tokens=294 backend.token_ms=10 {AT_A_RATE.format(300, 39.5)}",
        "Offline": f"backend.tokens=294 {ALL_AT_ONCE.format(13, 60)}",
    },
    "mixtral-8x7b": {
        "Server": f"backend.tokens=146 backend.token_ms=10 {AT_A_RATE.format(300, 24)}",
        "Offline": f"backend.tokens=146 {ALL_AT_ONCE.format(14, 60)}",
    },
    "stable-diffusion-xl": {
        "SingleStream": ONE_BY_ONE.format(75, 45_000_000),
        "Server": AT_A_RATE.format(2000, 2),
        "Offline": ALL_AT_ONCE.format(41, 23),
    },
}
RUNS |= {
    "llama2-70b@v5.1": RUNS["llama2-70b"],
    "llama2-70b@v6.0": {
        "Interactive": RUNS["llama2-70b"]["Server"],
        "Offline": RUNS["llama2-70b"]["Offline"],
    },
}
"""What `mlbench run` is given with ``--set``, by workload and scenario; those of another round than v4.1 have its name.

A stream is expected to be faster than it is, so that LoadGen does not run out of queries. With equal issue, in 3D-UNet
and GPT-J, LoadGen sends all that it expects to fit into twice the time: there it is expected to be half as fast.
"""


def main(folder: Path, names: Sequence[str]) -> None:
    """Make what is missing in a folder, and pack the archives of these names, or all."""
    runs = [Run(folder=folder, workload=name, scenario=each) for name in names or RUNS for each in RUNS[name]]
    with ThreadPoolExecutor(len(runs)) as pool:
        for run in runs:
            pool.submit(run.complete)
            time.sleep(BETWEEN_STARTS_S)
    for run in runs:
        print(*run.rows(), sep="\n")
    for name in names or RUNS:
        write_archive(name, (pair for run in runs if run.workload == name for pair in run.files()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with its compliance tests, in a results folder of its own."""

    folder: Path
    workload: str
    scenario: str

    @property
    def results(self) -> Path:
        """Return the results folder."""
        return self.folder / f"{self.workload}-{self.scenario}"

    @property
    def record(self) -> Path | None:
        """Return the record of the good run; None while there is none."""
        for file in self.results.glob("*/record.json"):
            verdict = json.loads(file.read_text(encoding="utf-8"))["verdict"]
            if verdict and verdict["is_valid"] and verdict["is_accurate"]:
                return file
        return None

    def complete(self) -> None:
        """Make the run and its tests, those side by side, as far as they are missing."""
        try:
            self._complete()
        except Exception as error:  # a thread's error is shown nowhere else
            print(f"{self.results.name}: {error!r}", flush=True)

    def _complete(self) -> None:
        words = [word for each in RUNS[self.workload][self.scenario].split() for word in ("--set", each)]
        name, _, of = self.workload.partition("@")
        words += ["--round", of] if of else []
        words += ["--backend", "null", "--scenario", self.scenario, "--profile", "full", "--tier", "valid"]
        for _ in range(TRIES):
            if not self.record:
                self._call("run", name, *words)
        if not self.record:
            raise RuntimeError("no run is valid and accurate")
        missing = self._missing_tests()
        with ThreadPoolExecutor(max(1, len(missing))) as pool:
            list(pool.map(self._audit, missing))

    def _audit(self, test: str) -> None:
        assert self.record
        for _ in range(TRIES):
            if test in self._missing_tests():
                self._call("audit", self.record.parent.name, "--test", test)

    def _missing_tests(self) -> list[str]:
        assert self.record
        words = [*MLBENCH, "audit", self.record.parent.name, "--results", str(self.results), "--plan", "--json"]
        done = subprocess.run(words, env=self._variables(), capture_output=True, text=True, check=False)
        if done.returncode:
            if "owes no compliance test" in done.stderr:
                return []
            raise RuntimeError(done.stderr)
        plan = json.loads(done.stdout)
        passed = {each["test"] for each in plan["earlier"] if each["passed"]}
        return [each["test"] for each in plan["tests"] if each["test"] not in passed]

    def _call(self, *words: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "output.txt", "a", encoding="utf-8") as output:
            whole = [*MLBENCH, *words, "--results", str(self.results)]
            done = subprocess.run(whole, env=self._variables(), stdout=output, stderr=output, check=False)
        print(time.strftime("%H:%M:%S"), self.workload, self.scenario, words[0], words[-1], done.returncode, flush=True)

    def _variables(self) -> Mapping[str, str]:
        paths = [str(HERE / "plugin"), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {"PYTHONPATH": os.pathsep.join(paths), "MLBENCH_SETTINGS": str(self.folder / "none.toml")}
        return os.environ | own | {"MLBENCH_CACHE": str(self.folder / "cache")}

    def rows(self) -> Iterator[str]:
        """Yield a row of the README's table for the run and each of its tests."""
        for file in self._records():
            record = json.loads(file.read_text(encoding="utf-8"))
            kept = {}
            for line in (file.parent / "performance/mlperf_log_detail.txt").read_text(encoding="utf-8").splitlines():
                logged = json.loads(line.removeprefix(":::MLLOG "))
                kept[logged["key"]] = logged["value"]
            samples, result = record["samples"]["issued"], record["result"]
            values = {
                "name": self.workload,
                "scenario": self.scenario,
                "what": record["audit"]["test"] if record["audit"] else "run",
                "seconds": f"{_seconds(kept):.0f}",
                "queries": f"{kept['result_query_count']:,}",
                "samples": f"{samples:,}",
                "validity": kept["result_validity"],
                "result": f"{result['value']:,g} {result['unit']}",
            }
            yield f"| {' | '.join(values.values())} |"

    def _records(self) -> Iterator[Path]:
        """Yield the record of the run, and of the newest of each of its tests."""
        assert self.record
        yield self.record
        tests = {}
        for file in sorted(self.results.glob(f".audits/{self.record.parent.name}/*/record.json")):
            tests[json.loads(file.read_text(encoding="utf-8"))["audit"]["test"]] = file
        yield from (tests[test] for test in sorted(tests))

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each file that is kept."""
        for record in self._records():
            for file in sorted(record.parent.rglob("*")):
                if file.is_file() and file.name not in LEFT_OUT:
                    content = _anonymous(file) if file == record else file.read_bytes()
                    yield file.relative_to(self.results).as_posix(), content


def _seconds(values: Mapping[str, Any]) -> float:
    begun, ended = (time.strptime(values[f"power_{end}"][:19], "%m-%d-%Y %H:%M:%S") for end in ("begin", "end"))
    return time.mktime(ended) - time.mktime(begun)


def _anonymous(file: Path) -> bytes:
    """Return a record without the name of the machine, as it was before speed was checked, which `null` cannot pass."""
    record = json.loads(file.read_text(encoding="utf-8"))
    record["environment"]["machine"] = MACHINE
    record["format"], record["verdict"]["is_conformant"] = 3, record["audit"] is None
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


def write_archive(name: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write an archive of files: alike ones beside each other, as they then take the room of one."""
    beside = HERE / f"{name}.tar.xz.part"
    parts = (part for file in files for part in _split(*file))
    with tarfile.open(beside, "w:xz", preset=9) as archive:
        for path, content in sorted(parts, key=lambda pair: (Path(pair[0]).name, len(pair[1]), pair[0])):
            about = tarfile.TarInfo(path)
            about.size = len(content)
            archive.addfile(about, BytesIO(content))
    beside.rename(HERE / f"{name}.tar.xz")


def read_archive(name: str, folder: Path) -> None:
    """Unpack an archive into a folder."""
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2, of Debian 12, has none
        archive.extractall(folder)
    for file in [*folder.rglob(f"*{_TEXT}")]:
        numbers = file.with_suffix(_NUMBERS)
        file.with_suffix("").write_bytes(_joined(file.read_bytes(), numbers.read_bytes()))
        file.unlink()
        numbers.unlink()


def _split(path: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a log of replies as its text without numbers, and the numbers: the order of samples, which is random.

    As columns of bytes they take the room of their information; as text they take three times that. Other files stay
    as they are.
    """
    if not path.endswith(_REPLIES):
        yield path, content
        return
    numbers = np.array(_ENTRY.findall(content), np.int64).reshape(-1, 2)
    text = _ENTRY.sub(_BLANK, content)
    serials, indices = np.diff(numbers[:, 0], prepend=0), numbers[:, 1]
    columns = np.concatenate([serials, indices]).astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()
    assert _joined(text, columns) == content
    yield f"{path}{_TEXT}", text
    yield f"{path}{_NUMBERS}", columns


def _joined(text: bytes, columns: bytes) -> bytes:
    """Return a log of replies of its two parts."""
    serials, indices = np.frombuffer(columns, np.uint8).reshape(4, -1).T.copy().view("<i4").reshape(2, -1)
    numbers = zip(np.cumsum(serials).tolist(), indices.tolist(), strict=True)
    parts = text.split(_BLANK)
    filled = (
        b'{ "seq_id" : %d, "qsl_idx" : %d,%b' % (*pair, part) for pair, part in zip(numbers, parts[1:], strict=True)
    )
    return b"".join([parts[0], *filled])


def renew(names: Sequence[str]) -> None:
    """Let the records in the archives of these names, or all, be what their logs say."""
    sys.path.insert(0, str(HERE / "plugin"))  # the workloads of these runs, in the place of the nine
    plugins = Plugins.discover()
    for name in names or RUNS:
        with tempfile.TemporaryDirectory() as place:
            read_archive(name, Path(place))
            for file in Path(place).rglob("record.json"):
                rewrite(file.parent, plugins)
            files = [each for each in Path(place).rglob("*") if each.is_file()]
            write_archive(name, ((each.relative_to(place).as_posix(), each.read_bytes()) for each in files))


def rewrite(folder: Path, plugins: Plugins) -> None:
    """Let the record of a run be what its logs say, where that is not what it says."""
    record = read(folder)
    found = rebuild(record, folder, plugins).model_dump(mode="json", exclude_unset=True, warnings=False)
    said = _merged(record.model_dump(mode="json"), found)
    (folder / "record.json").write_text(RunRecord.model_validate(said).text(), encoding="utf-8")


def _merged(said: Any, found: Any) -> Any:
    """Return what was found in the place of what is said, and the rest as it is."""
    if isinstance(said, dict) and isinstance(found, dict):
        return said | {name: _merged(said.get(name), value) for name, value in found.items()}
    if isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        return [_merged(*pair) for pair in zip(said, found, strict=True)]
    return found


if __name__ == "__main__":
    if sys.argv[1] == "--records":
        renew(sys.argv[2:])
    else:
        main(Path(sys.argv[1]).resolve(), sys.argv[2:])
