import pytest
from scripted_server import ScriptedServer

from mlbench.fetching.data_folder import only_fetch
from mlbench.fetching.download import Downloader
from mlbench.fetching.fetch import Fetch
from mlbench.fetching.sources import read_sources


@pytest.fixture
def server():
    running = ScriptedServer()
    yield running
    running.close()


@pytest.fixture
def fetch(tmp_path, server):
    """Fetch what a list of sources says, with ``URL`` for the server's address; return what a person must bring."""

    def run(text, *, given=()):
        file = tmp_path / "sources.toml"
        file.write_text(f'round = "v4.1"\n{text.replace("URL", server.url)}')
        with only_fetch(tmp_path / "data") as lock:
            quick = Downloader(folder=tmp_path, pause=lambda seconds: None, stall_s=30)
            job = Fetch(
                workload="w",
                sources=read_sources(file),
                data=tmp_path / "data",
                lock=lock,
                given=given,
                downloader=quick,
            )
            outcome = job.run()
            for each in outcome.failed:
                raise each.error
            return [each.id for each in outcome.waiting]

    return run


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "w"
