"""Digests of LoadGen's logs, kept in the record: an edited log shows that it is not the one that was measured."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from mlbench.errors import DataError
from mlbench.system.documents import open_regular

_BLOCK_BYTES = 1 << 20
_LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json")


def log_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each log of a run's tests, by its path in the run folder.

    A key is ``performance/mlperf_log_detail.txt``. Traces are left out: no rule reads them.

    Raises:
        DataError: a log is not a regular file, or cannot be read.
    """
    found = {}
    for file in sorted(file for name in _LOGS for file in folder.glob(f"*/{name}")):
        try:
            with open_regular(file) as log:
                digest = hashlib.sha256()
                for block in iter(partial(log.read, _BLOCK_BYTES), b""):
                    digest.update(block)
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}.", hint="The logs of a run stay as they were.") from None
        found[file.relative_to(folder).as_posix()] = digest.hexdigest()
    return found
