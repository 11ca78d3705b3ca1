"""``mlbench fetch`` where one of several files is not to be had: the others are fetched, and each failure is said."""

import hashlib

import pytest
from invoking import invoke
from scripted_server import ScriptedServer


@pytest.fixture
def server():
    running = ScriptedServer()
    yield running
    running.close()


@pytest.fixture
def fetch(tmp_path, monkeypatch, server):
    """Fetch a list of sources of ResNet-50's own, with ``URL`` for the server's address."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("MLBENCH_DATA", str(data))

    def run(*artifacts):
        text = "\n".join(['round = "v4.1"', *artifacts]).replace("URL", server.url)
        (data / "resnet50.sources.toml").write_text(text)
        return invoke("fetch", "resnet50")

    return run


def entry(name, content=None, more=""):
    checksum = f'md5 = "{hashlib.md5(content).hexdigest()}"' if content is not None else ""
    lines = ["[[artifact]]", f'id = "{name}"', 'role = "model"', f'urls = ["URL/{name}"]']
    return "\n".join([*lines, f'destination = "{name}.bin"', checksum, more])


def test_a_file_that_is_not_to_be_had_keeps_no_other_from_being_fetched(fetch, server, tmp_path):
    server.add("damaged", b"other")
    server.add("good", b"good")
    done = fetch(entry("gone", b"gone"), entry("damaged", b"right"), entry("good", b"good"))
    assert done.exit_code == 2
    assert (tmp_path / "data/resnet50/good.bin").read_bytes() == b"good"
    assert sorted(path.name for path in (tmp_path / "data/resnet50").glob("*.bin")) == ["good.bin"]
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert [line.split(": ")[1:3] for line in errors] == [["resnet50", "gone"], ["resnet50", "damaged"]]
    assert "resnet50: gone failed; damaged failed" in done.stdout


def test_running_it_again_brings_what_failed_and_nothing_else(fetch, server):
    server.add("good", b"good")
    artifacts = entry("gone", b"gone"), entry("good", b"good")
    assert fetch(*artifacts).exit_code == 2
    server.add("gone", b"gone")
    asked = len(server.requests)
    done = fetch(*artifacts)
    assert (done.exit_code, done.stdout) == (0, "resnet50: complete\n")
    assert {path for path, _ in server.requests[asked:]} == {"gone"}


def test_a_failure_goes_before_a_file_that_a_person_must_bring(fetch):
    manual = entry("images", b"images", 'gate = "login"\nask = "Bring the images."')
    assert "Bring the images." in fetch(manual).stdout
    assert fetch(manual).exit_code == 1
    done = fetch(manual, entry("gone", b"gone"))
    assert done.exit_code == 2
    assert "gone failed; Bring the images." in done.stdout
