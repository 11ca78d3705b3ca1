"""Folders in which a program had its way are removed, whatever it did; what stays is told, and nothing is raised."""

import os
import socket
import subprocess
import sys

import pytest

from mlbench.toolkit.sandbox.removal import remove_folder
from mlbench.toolkit.sandbox.tree import DEEPEST, open_folder, tree_bytes

MIB = 1 << 20

NESTED = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(int(sys.argv[2])):
    os.mkdir(sys.argv[3])
    os.chdir(sys.argv[3])
open("file", "w").write("x")
"""


def nest(folder, levels, name="d"):
    """Make folders in each other: in a process of its own, which stays in the last of them."""
    subprocess.run([sys.executable, "-I", "-S", "-c", NESTED, str(folder), str(levels), name], check=True)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=False)  # what a broken removal left, pytest could not remove either


@pytest.mark.slow
def test_folders_nested_thousands_deep_go(folder):
    nest(folder, 2000)
    assert remove_folder(str(folder)) == ""
    assert not folder.exists()


def test_a_path_longer_than_any_call_takes_goes(folder):
    nest(folder, 40, "n" * 255)
    assert remove_folder(str(folder)) == ""
    assert not folder.exists()


def test_many_deep_folders_side_by_side_go(folder):
    for number in range(2):
        (folder / str(number)).mkdir()
        nest(folder / str(number), 100)
        (folder / str(number) / "d" / "more").mkdir()
    assert remove_folder(str(folder)) == ""
    assert not folder.exists()


def test_few_files_are_open_at_once(folder):
    nest(folder, 100)
    program = f"""
import resource
from mlbench.toolkit.sandbox.removal import remove_folder
resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
print(remove_folder({str(folder)!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o300, 0o400, 0o500, 0o600])
def test_folders_without_rights_go(folder, mode):
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    for path in (folder / "a" / "b" / "file", folder / "a" / "b", folder / "a", folder):
        path.chmod(mode)
    assert remove_folder(str(folder)) == ""
    assert not folder.exists()


def test_what_is_no_file_is_removed_without_waiting(folder):
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(folder, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    (folder / "dangling").symlink_to("nowhere")
    (folder / "round").symlink_to("round")
    (folder / "line\nbreak \udcff").touch()
    assert remove_folder(str(folder)) == ""
    assert not folder.exists()


def test_what_links_lead_to_stays(folder, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o750)
    (kept / "file").touch()
    (folder / "link").symlink_to(kept)
    (folder / "a").mkdir()
    (folder / "a" / "link").symlink_to(kept)
    os.link(kept / "file", folder / "a" / "same")
    assert remove_folder(str(folder)) == ""
    assert (kept / "file").exists()
    assert kept.stat().st_mode & 0o777 == 0o750


def test_a_folder_that_is_a_link_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert remove_folder(str(tmp_path / "link")) == f"{tmp_path}/link: Not a directory"
    assert folder.exists()


def test_a_folder_that_is_not_there_is_gone_already(tmp_path):
    assert remove_folder(str(tmp_path / "none")) == ""


MOUNTED = """
import os, sys
from mlbench.toolkit.sandbox import linux
from mlbench.toolkit.sandbox.removal import remove_folder
folder, kept = sys.argv[1:]
linux.unshare(linux.CLONE_NEWNS if os.geteuid() == 0 else linux.CLONE_NEWNS | linux.CLONE_NEWUSER)
linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
linux.mount(kept, folder + "/a/b", flags=linux.MS_BIND)
print(remove_folder(folder))
"""


def test_what_is_mounted_below_is_not_entered_but_reported(folder, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "c").touch()
    command = [sys.executable, "-c", MOUNTED, str(folder), str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare: Operation not permitted" in done.stderr:
        pytest.skip("no mounts may be made here")
    assert done.stdout == f"1 in {folder}, as 'a': Device or resource busy\n"
    assert (kept / "file").exists()
    assert not (folder / "c").exists()


def test_a_file_that_cannot_be_removed_is_reported_and_the_rest_goes(folder):
    (folder / "a").mkdir()
    for name in ("a/fixed", "a/file", "file"):
        (folder / name).touch()
    fixed = folder / "a" / "fixed"
    if subprocess.run(["chattr", "+i", str(fixed)], capture_output=True, check=False).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        assert remove_folder(str(folder)) == f"1 in {folder}, as 'a': Operation not permitted"
        assert [path.name for path in folder.rglob("*")] == ["a", "fixed"]
    finally:
        subprocess.run(["chattr", "-i", str(fixed)], check=True)
    assert remove_folder(str(folder)) == ""


class TestTheSizeOfAFolder:
    def size_of(self, folder, most_bytes=100 * MIB):
        descriptor = open_folder(str(folder))
        try:
            return tree_bytes(descriptor, most_bytes)
        finally:
            os.close(descriptor)

    def test_counts_blocks_and_entries(self, folder):
        assert self.size_of(folder) == 0
        (folder / "a").mkdir()
        (folder / "a" / "file").write_bytes(bytes(MIB))
        assert MIB <= self.size_of(folder) <= MIB + 16384

    def test_counts_what_lies_in_folders_without_rights(self, folder):
        (folder / "a").mkdir()
        (folder / "a" / "file").write_bytes(bytes(MIB))
        (folder / "a").chmod(0)
        assert self.size_of(folder) >= MIB

    def test_counts_what_lies_in_it_when_it_is_without_rights_itself(self, folder):
        (folder / "file").write_bytes(bytes(MIB))
        descriptor = open_folder(str(folder))
        folder.chmod(0)
        try:
            assert tree_bytes(descriptor, 100 * MIB) >= MIB
        finally:
            os.close(descriptor)

    def test_is_nothing_where_it_is_gone(self, folder):
        descriptor = open_folder(str(folder))
        folder.rmdir()
        try:
            assert tree_bytes(descriptor, MIB) == 0
        finally:
            os.close(descriptor)

    def test_counts_empty_files(self, folder):
        for number in range(50):
            (folder / str(number)).touch()
        assert self.size_of(folder) >= 50 * 4096

    def test_counts_no_holes(self, folder):
        with (folder / "file").open("wb") as file:
            file.truncate(64 * MIB)
        assert self.size_of(folder) < MIB

    def test_is_too_much_where_it_is_too_deep(self, folder):
        nest(folder, DEEPEST)
        assert self.size_of(folder, 8 * MIB) <= 8 * MIB
        nest(folder / "d", DEEPEST, "e")
        assert self.size_of(folder, 8 * MIB) > 8 * MIB

    def test_stops_where_it_is_too_much(self, folder):
        for number in range(9):
            (folder / str(number)).write_bytes(bytes(MIB))
        assert 2 * MIB < self.size_of(folder, 2 * MIB) < 4 * MIB
