"""Archives that would hang their library, or fill the memory, are refused by what they say of themselves."""

import io
import lzma
import struct
import tarfile
import zipfile
import zlib

import pytest

from mlbench.system.documents import Budget, BudgetSpentError, Meter
from mlbench.system.documents.archives import open_tar, open_zip, read_member, tar_members


def zip_of(content, **how):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, **how) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return packed


def one_member_named_often(times):
    """A zip whose directory names its one megabyte of zeros many times."""
    zeros = bytes(1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(zeros) + packer.flush()
    facts = struct.pack("<IIIHH", zlib.crc32(zeros), len(body), len(zeros), 1, 0)
    local = struct.pack("<IHHHHH", 0x04034B50, 20, 0, 8, 0, 0) + facts + b"a" + body
    entry = struct.pack("<IHHHHHH", 0x02014B50, 20, 20, 0, 8, 0, 0) + facts + bytes(14) + b"a"
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, times, times, len(entry) * times, len(local), 0)
    return io.BytesIO(local + entry * times + end)


def read_all(file, budget):
    meter = Meter(budget)
    with open_zip(file, meter) as archive:
        return {each.filename: b"".join(read_member(archive, each, meter)) for each in archive.infolist()}


def test_a_zip_is_read_within_its_budget():
    content = {"a": b"one" * 100_000, "b/c": b""}
    assert read_all(zip_of(content), Budget(bytes=300_000, members=2)) == content


def test_members_that_are_one_are_refused_before_any_is_unpacked():
    with pytest.raises(ValueError, match="its members 'a' and 'a' overlap"):
        read_all(one_member_named_often(60_000), Budget())


def test_members_and_bytes_of_a_zip_are_counted_before_they_are_made():
    with pytest.raises(BudgetSpentError, match="more than 2 members"):
        read_all(zip_of(dict.fromkeys("abc", b"")), Budget(members=2))
    with pytest.raises(BudgetSpentError, match="more than 1000 bytes"):
        read_all(zip_of({"zeros": bytes(1001)}), Budget(bytes=1000))


def tar_of(*members, pack=lambda content: content):
    """A tar of (name, type, size) whose members are zeros."""
    parts = []
    for name, kind, size in members:
        entry = tarfile.TarInfo(name)
        entry.type, entry.size = kind, size
        parts += [entry.tobuf(tarfile.GNU_FORMAT), bytes(-(-size // 512) * 512)]
    return io.BytesIO(pack(b"".join(parts) + bytes(1024)))


def names_of(file, budget):
    meter = Meter(budget)
    with open_tar(file, meter) as archive:
        return [each.name for each in tar_members(archive, meter)]


def test_a_tar_is_read_packed_or_not():
    for pack in (bytes, lzma.compress):
        file = tar_of(("a", tarfile.REGTYPE, 1000), ("b", tarfile.REGTYPE, 0), pack=pack)
        assert names_of(file, Budget(bytes=10_000)) == ["a", "b"]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_longer_than_any_path_is_not_taken_into_memory(kind):
    file = tar_of(("x", kind, 1 << 24), ("a", tarfile.REGTYPE, 0), pack=lzma.compress)
    with pytest.raises(BudgetSpentError, match="a header of it has 16777216 bytes"):
        names_of(file, Budget())


def test_bytes_that_are_passed_over_are_counted_as_well():
    file = tar_of(("skipped", tarfile.REGTYPE, 1 << 24), ("wanted", tarfile.REGTYPE, 0), pack=lzma.compress)
    with pytest.raises(BudgetSpentError, match="more than 1000000 bytes"):
        names_of(file, Budget(bytes=1_000_000))


def test_members_of_a_tar_are_counted_and_not_kept():
    file = tar_of(*[(f"f{number}", tarfile.REGTYPE, 0) for number in range(5)])
    meter = Meter(Budget(members=4))
    with open_tar(file, meter) as archive, pytest.raises(BudgetSpentError, match="more than 4 members"):
        for _ in tar_members(archive, meter):
            assert len(archive.members) <= 1
