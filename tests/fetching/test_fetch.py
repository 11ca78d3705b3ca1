"""A workload's artifacts come from addresses, lists, archives and the user's own files, each once and verified."""

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from mlbench.contracts.workload import Workload
from mlbench.errors import DataError, StorageError, UsageError
from mlbench.fetching.data_folder import only_fetch
from mlbench.fetching.fetched_settings import fetched_settings
from mlbench.fetching.lock_file import LOCK_FILE
from mlbench.fetching.plan import check_room, plan_workload
from mlbench.fetching.sources import read_sources


def md5(content):
    return hashlib.md5(content).hexdigest()


def tar_of(members, **more):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def numbers(folder):
    """Return what an artifact's items are; named by the lists of sources below."""
    return json.loads((folder / "numbers.json").read_text())


def spell(folder, destination):
    """Make something of what was fetched; named by the lists of sources below."""
    destination.write_text(" ".join(map(str, numbers(folder))))


def entry(name, body):
    return f'[[artifact]]\nid = "{name}"\nrole = "model"\n{body}\n'


def test_running_again_asks_nobody(server, fetch, folder):
    server.add("a", b"alpha")
    text = entry("a", f'urls = ["URL/a"]\ndestination = "a.bin"\nmd5 = "{md5(b"alpha")}"')
    assert fetch(text) == []
    assert fetch(text) == []
    assert (folder / "a.bin").read_bytes() == b"alpha"
    assert len(server.requests) == 1


def test_the_record_keeps_digest_source_licence_and_what_was_believed(server, fetch, folder):
    server.add("a", b"alpha")
    server.add("b", b"beta")
    fetch(
        entry("a", f'urls = ["URL/a"]\ndestination = "a"\nmd5 = "{md5(b"alpha")}"\nlicence = "MIT"')
        + entry("b", 'urls = ["URL/b"]\ndestination = "b"')
    )
    lines = [json.loads(line) for line in (folder.parent / LOCK_FILE).read_text().splitlines()]
    assert lines[0] == {
        "format": 1,
        "path": "w/a",
        "size_bytes": 5,
        "algorithm": "md5",
        "digest": md5(b"alpha"),
        "verified_by": "published digest",
        "source": f"{server.url}/a",
    }
    assert lines[1] == {"format": 1, "artifact": "w/a", "round": "v4.1", "licence": "MIT", "gate": "none"}
    assert (lines[2]["verified_by"], lines[2]["algorithm"]) == ("first use", "sha256")


def test_a_file_that_is_lost_is_fetched_again_and_must_be_the_same(server, fetch, folder):
    server.add("b", b"beta")
    text = entry("b", 'urls = ["URL/b"]\ndestination = "b"')
    fetch(text)
    (folder / "b").unlink()
    server.add("b", b"BETA")
    with pytest.raises(DataError, match="is the one at its first use"):
        fetch(text)
    server.add("b", b"beta")
    assert fetch(text) == []


def test_another_file_in_its_place_is_not_overwritten(server, fetch, folder):
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"is not the official file\. Move it away"):
        fetch(entry("a", f'urls = ["URL/a"]\ndestination = "a"\nmd5 = "{md5(b"alpha")}"'))
    assert (folder / "a").read_bytes() == b"mine"


def test_a_list_with_blank_checksums_verifies_nothing_by_itself(server, fetch, folder):
    """`md5sum -c` skips such lines and exits 0."""
    server.add("list", f"{md5(b'one')}  1.bin\n  2.npy\n".encode())
    server.add("1.bin", b"one")
    server.add("2.npy", b"\x93NUMPY")
    text = entry("all", 'list_url = "URL/list"\nbase = "URL"\ndestination = "all"')
    with pytest.raises(DataError, match="it is damaged"):
        fetch(text)
    assert not (folder / "all/2.npy").exists()


def test_a_list_that_contradicts_what_is_known_is_of_another_release(server, fetch):
    server.add("list", f"{md5(b'other')}  1.bin\n".encode())
    text = f'list_url = "URL/list"\nbase = "URL"\ndestination = "all"\nfiles = [["1.bin", "{md5(b"one")}"]]'
    with pytest.raises(DataError, match="another checksum than is known"):
        fetch(entry("all", text))


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_list_cannot_name_a_path_outside_its_folder(server, fetch, path):
    server.add("list", f"{md5(b'x')}  {path}\n".encode())
    with pytest.raises(DataError, match="is not a checksum and a path"):
        fetch(entry("all", 'list_url = "URL/list"\nbase = "URL"\ndestination = "all"'))


def test_files_of_a_snapshot_have_the_sizes_of_its_manifest(server, fetch, folder):
    tensor = {"type": "Tensor", "location": "sharded/t", "serializer": "buffer_protocol"}
    manifest = json.dumps({"manifest": {"0/model/t": {**tensor, "dtype": "torch.float32", "shape": [2, 3]}}}).encode()
    server.add("list", b" .snapshot_metadata\n sharded/t\n")
    server.add(".snapshot_metadata", manifest)
    server.add("sharded/t", bytes(23))
    text = entry("all", 'list_url = "URL/list"\nbase = "URL"\ndestination = "all"\nsnapshot = true')
    with pytest.raises(DataError, match="the server has 23 bytes, the file 24"):
        fetch(text)
    server.add("sharded/t", bytes(24))
    assert fetch(text) == []
    assert (folder / "all/sharded/t").stat().st_size == 24


def test_items_come_from_what_was_fetched_and_results_are_made_of_it(server, fetch, folder):
    server.add("numbers", b"[3, 14]")
    server.add("case_00003", b"three")
    server.add("case_00014", b"fourteen")
    text = (
        entry("list", 'urls = ["URL/numbers"]\ndestination = "numbers.json"')
        + entry(
            "cases", 'urls = ["URL/case_{item:05d}"]\ndestination = "cases/{item}.txt"\nitems = "test_fetch:numbers"'
        )
        + entry("made", 'convert = "test_fetch:spell"\ndestination = "made.txt"')
    )
    assert fetch(text) == []
    assert (folder / "cases/14.txt").read_bytes() == b"fourteen"
    assert (folder / "made.txt").read_text() == "3 14"
    assert fetch(text) == []
    assert len(server.requests) == 3


def test_archives_become_folders_and_single_files(server, fetch, folder):
    packed = tar_of({"./x/1.JPEG": b"one", "2.JPEG": b"two"})
    labels = tar_of({"train.txt": b"no", "val.txt": b"1.JPEG 7"})
    server.add("images.tar", packed)
    server.add("labels.tar.gz", labels)
    text = entry(
        "images", f'urls = ["URL/images.tar"]\ndestination = "imagenet"\nunpack = "tar"\nmd5 = "{md5(packed)}"'
    )
    text += entry(
        "labels",
        'urls = ["URL/labels.tar.gz"]\ndestination = "imagenet/val_map.txt"\nunpack = "tar"\nmember = "val.txt"\n'
        f'md5_any = ["{md5(b"older")}", "{md5(labels)}"]',
    )
    assert fetch(text) == []
    assert fetch(text) == []
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "imagenet/2.JPEG",
        "imagenet/val_map.txt",
        "imagenet/x/1.JPEG",
    ]
    (folder / "imagenet/2.JPEG").unlink()
    assert fetch(text) == []
    assert (folder / "imagenet/2.JPEG").read_bytes() == b"two"


def hostile_tar(name="x", kind=tarfile.REGTYPE, link=""):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        archive.addfile(member, io.BytesIO())
    return packed.getvalue()


def twice():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("a", "A"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return packed.getvalue()


def bomb():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(30_000_000))
    return packed.getvalue()


@pytest.mark.parametrize(
    "case",
    [
        (hostile_tar("../evil"), "tar", "outside its folder"),
        (hostile_tar("/tmp/evil"), "tar", "outside its folder"),
        (hostile_tar("l", tarfile.SYMTYPE, "/etc"), "tar", "is a link or a device"),
        (hostile_tar("l", tarfile.LNKTYPE, "../../evil"), "tar", "is a link or a device"),
        (hostile_tar("d", tarfile.CHRTYPE), "tar", "is a link or a device"),
        (twice(), "tar", "two of its files are 'A'"),
        (bomb(), "zip", "would expand too far"),
        (b"no archive", "tar", "it is damaged"),
        (b"no archive", "zip", "it is damaged"),
        (tar_of({"a": b"one"})[:60], "tar", "it is damaged"),
        (tar_of({"a": b"one", "a/b": b"two"}), "tar", "'a/b', or what it lies in, is a file and a folder"),
        (tar_of({"a/b": b"one", "A": b"two"}), "tar", "'A', or what it lies in, is a file and a folder"),
        (
            tar_of({"/".join(["n" * 200] * 3) + "n" * 100: b"one"}),
            "tar",
            "is not a name of a file here",
        ),
    ],
    ids=[
        *("parent", "absolute", "symlink", "hard link", "device", "twice", "bomb", "no tar", "no zip", "cut"),
        *("file and folder", "folder and file", "long"),
    ],
)
def test_an_archive_that_would_harm_is_refused_and_leaves_nothing(server, fetch, tmp_path, case):
    content, kind, reason = case
    folder = tmp_path / "data/w"
    server.add("archive", content)
    text = f'urls = ["URL/archive"]\ndestination = "out"\nunpack = "{kind}"\nmd5 = "{md5(content)}"'
    with pytest.raises(DataError, match=reason):
        fetch(entry("a", text))
    assert [path.name for path in folder.iterdir()] == [".archives"]


def test_what_needs_a_person_is_named_and_taken_from_where_it_lies(server, fetch, folder, tmp_path):
    packed = tar_of({"1.JPEG": b"one"})
    text = entry(
        "images",
        'gate = "login"\nask = "Sign in, and give it with --from."\nurls = ["https://example.org/login.php"]\n'
        f'archive = "val.tar"\ndestination = "imagenet"\nunpack = "tar"\nmd5 = "{md5(packed)}"',
    )
    assert fetch(text) == ["images"]
    mine = tmp_path / "downloads/deep"
    mine.mkdir(parents=True)
    (mine / "val (1).tar").write_bytes(packed)
    assert fetch(text, given=[tmp_path / "downloads"]) == []
    assert (folder / "imagenet/1.JPEG").read_bytes() == b"one"
    assert (mine / "val (1).tar").read_bytes() == packed


def test_what_the_user_has_is_not_downloaded(server, fetch, folder, tmp_path):
    (tmp_path / "renamed.bin").write_bytes(b"alpha")
    text = entry("a", f'urls = ["URL/a"]\ndestination = "a.bin"\nmd5 = "{md5(b"alpha")}"')
    assert fetch(text, given=[tmp_path / "renamed.bin"]) == []
    assert (folder / "a.bin").read_bytes() == b"alpha"
    assert server.requests == []
    assert not (folder / "a.bin").is_symlink()


def test_a_path_that_does_not_exist_is_said(fetch, tmp_path):
    with pytest.raises(DataError, match="nowhere does not exist"):
        fetch(entry("a", f'urls = ["URL/a"]\ndestination = "a"\nmd5 = "{md5(b"a")}"'), given=[tmp_path / "nowhere"])


def test_two_fetches_do_not_share_a_folder(fetch, tmp_path):
    with only_fetch(tmp_path / "data"), pytest.raises(UsageError, match="another mlbench fetch works on"):
        fetch(entry("a", f'urls = ["URL/a"]\ndestination = "a"\nmd5 = "{md5(b"a")}"'))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('urls = ["URL/a"]\ndestination = "../a"', "not a path inside the data folder"),
        ('urls = ["http://example.org/a"]\ndestination = "a"', "unprotected, and no digest"),
        ('urls = ["file:///etc/passwd"]\ndestination = "a"', "is not the URL of a file"),
        ('urls = ["https://me:secret@example.org/a"]\ndestination = "a"', "is not the URL of a file"),
        ('urls = ["URL/a"]\ndestination = "a"\nmd5 = "d41d8cd9"', "is no md5"),
        ('urls = ["URL/a"]\ndestination = "a"\nmd4 = "x"', "md4"),
        ('destination = "a"', "must give its source"),
        ('base = "URL"\nfiles = [["a", ""], ["A", ""]]', "two files would both be a"),
    ],
)
def test_a_list_of_sources_that_cannot_be_right_is_refused(fetch, body, reason):
    with pytest.raises(DataError, match=reason):
        fetch(entry("a", body))


def test_a_record_that_was_cut_short_loses_its_last_line_only(server, fetch, folder):
    server.add("a", b"alpha")
    text = entry("a", f'urls = ["URL/a"]\ndestination = "a"\nmd5 = "{md5(b"alpha")}"')
    fetch(text)
    record = folder.parent / LOCK_FILE
    whole = record.read_bytes()
    record.write_bytes(whole[:-10])
    assert fetch(text) == []
    assert record.read_bytes() == whole
    assert len(server.requests) == 1


def test_a_record_of_something_else_is_said(fetch, folder):
    folder.mkdir(parents=True)
    (folder.parent / LOCK_FILE).write_text("numpy==2\n")
    with pytest.raises(DataError, match=r"line 1 of .*mlbench.lock is not mlbench's"):
        fetch("artifact = []")


@pytest.mark.parametrize(
    "line",
    [
        '{"format": 1, "path": 5, "size_bytes": 3, "verified_by": "structure", "source": "x"}',
        '{"format": 1, "path": "w/a", "size_bytes": "3", "verified_by": "structure", "source": "x"}',
        '{"format": 1, "artifact": [], "round": "", "licence": "", "gate": ""}',
        "[]",
        "1e999",
    ],
)
def test_a_line_of_the_record_with_values_of_another_type_is_said(fetch, folder, line):
    folder.mkdir(parents=True)
    (folder.parent / LOCK_FILE).write_text(f"{line}\n")
    with pytest.raises(DataError, match=r"line 1 of .*mlbench.lock is not mlbench's: .* Move the file away"):
        fetch("artifact = []")


def test_a_bad_archive_costs_one_artifact(server, fetch, folder):
    packed = tar_of({"a": b"one", "a/b": b"two"})
    server.add("bad.tar", packed)
    server.add("good", b"good")
    text = entry("bad", f'urls = ["URL/bad.tar"]\ndestination = "out"\nunpack = "tar"\nmd5 = "{md5(packed)}"')
    text += entry("good", f'urls = ["URL/good"]\ndestination = "good"\nmd5 = "{md5(b"good")}"')
    with pytest.raises(DataError, match="was not unpacked"):
        fetch(text)
    assert (folder / "good").read_bytes() == b"good"


def test_too_small_a_disk_is_said_before_the_first_byte(tmp_path, fetch):
    file = tmp_path / "big.toml"
    file.write_text(
        'round = "v4.1"\n'
        + entry("a", f'urls = ["https://x.org/a"]\ndestination = "a"\nmd5 = "{md5(b"a")}"\nsize_bytes = {10**18}')
    )
    with only_fetch(tmp_path) as lock, pytest.raises(StorageError, match=r"1000000000\.0 GB are missing"):
        check_room([plan_workload("w", read_sources(file), lock)], tmp_path, is_manual_included=False)


class FetchedWorkload(Workload):
    """Only named and sourced."""

    name, title, rules = "w", "A workload", "bert"
    dataset = model = metric = lambda self: None


def test_settings_point_to_what_is_complete_and_to_nothing_else(server, fetch, folder, tmp_path):
    server.add("a", b"alpha")
    text = '[settings]\nweights = "checkpoint"\nvocab = "vocab.txt"\n'
    text += entry("model", f'base = "URL"\nfiles = [["a", "{md5(b"alpha")}"]]\ndestination = "checkpoint"')
    text += entry("vocab", 'urls = ["URL/b"]\ndestination = "vocab.txt"')
    with pytest.raises(DataError, match="no longer there"):
        fetch(text)
    workload = FetchedWorkload()
    workload.sources = tmp_path / "sources.toml"
    assert fetched_settings(workload, folder.parent) == {"workload.weights": str(folder / "checkpoint")}
    assert fetched_settings(workload, tmp_path / "elsewhere") == {}


def test_every_address_of_the_package_is_data():
    root = Path(__file__).parents[2] / "mlbench/fetching"
    assert [file.name for file in root.glob("*.py") if "https://" in file.read_text()] == []
