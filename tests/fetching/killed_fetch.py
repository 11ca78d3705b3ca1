"""Fetches what a list of sources says, as a process that a test may kill: python killed_fetch.py SOURCES DATA."""

import sys
from pathlib import Path

from mlbench.fetching.data_folder import only_fetch
from mlbench.fetching.fetch import Fetch, FetchOutcome
from mlbench.fetching.sources import read_sources

if __name__ == "__main__":
    file, data = map(Path, sys.argv[1:])
    with only_fetch(data) as lock:
        assert Fetch(workload="w", sources=read_sources(file), data=data, lock=lock).run() == FetchOutcome(
            waiting=[], failed=[]
        )
