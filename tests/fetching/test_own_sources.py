"""A data folder may have its own list of a workload's sources: other addresses, and nothing else that is run."""

import hashlib

import pytest

from mlbench.contracts.workload import Workload
from mlbench.errors import DataError
from mlbench.fetching.fetched_settings import own_sources, sources_of


class Sourced(Workload):
    """Only named and sourced."""

    name, title, rules = "w", "A workload", "bert"
    dataset = model = metric = lambda self: None


OFFICIAL = """
round = "v4.1"
[[artifact]]
id = "a"
role = "model"
urls = ["https://example.org/a"]
destination = "a"
[[artifact]]
id = "made"
role = "model"
convert = "w.official:convert"
destination = "made"
"""


@pytest.fixture
def workload(tmp_path):
    found = Sourced()
    found.sources = tmp_path / "sources.toml"
    found.sources.write_text(OFFICIAL)
    return found


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def addresses(sources):
    return [url for each in sources.artifact for url in each.urls]


def test_without_a_list_of_its_own_the_folder_has_the_workloads(workload, data):
    assert addresses(sources_of(workload, data)) == ["https://example.org/a"]


def test_the_folders_own_list_goes_first(workload, data):
    own_sources("w", data).write_text(OFFICIAL.replace("example.org", "mirror.example.org"))
    assert addresses(sources_of(workload, data)) == ["https://mirror.example.org/a"]


def test_it_cannot_name_code_of_its_own(workload, data):
    own_sources("w", data).write_text(OFFICIAL.replace("w.official:convert", "os:makedirs"))
    with pytest.raises(DataError, match="os:makedirs is not a function that w fetches with"):
        sources_of(workload, data)


def test_it_cannot_point_a_setting_outside_its_folder(workload, data):
    own_sources("w", data).write_text(OFFICIAL.replace("[[", '[settings]\nweights = "../../x"\n[[', 1))
    with pytest.raises(DataError, match=r"'\.\./\.\./x' is not a path inside the data folder"):
        sources_of(workload, data)


def test_no_fetch_can_write_such_a_list(data):
    assert own_sources("w", data).parent == data, "all that is fetched lies below the workload's folder"


def test_files_of_another_list_are_not_taken_for_the_official_ones(server, fetch, folder):
    for content in (b"small", b"large"):
        server.add("a", content)
        checksum = hashlib.md5(content).hexdigest()
        text = f'[[artifact]]\nid = "a"\nrole = "model"\nurls = ["URL/a"]\ndestination = "a"\nmd5 = "{checksum}"\n'
        if content == b"small":
            assert fetch(text) == []
        else:
            with pytest.raises(DataError, match="is not the official file"):
                fetch(text)
    assert (folder / "a").read_bytes() == b"small"
