"""Files that no checksum vouches for: what their headers may say, and none of it is a traceback."""

import io
import struct
import zipfile

import pytest

from mlbench.errors import DataError
from mlbench.fetching.structure import check_structure


def safetensors(header):
    return struct.pack("<Q", len(header)) + header


def npy(header, version=b"\x01\x00"):
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", len(header)) + header


def of_unknown_method():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a", b"content")
    return packed.getvalue().replace(struct.pack("<HHH", 20, 0, 0), struct.pack("<HHH", 20, 0, 98))


HEAD = b"{'descr': '<f4', 'fortran_order': False, 'shape': "


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.safetensors", safetensors(b'{"a":{"data_offsets":[0]}}'), "list index out of range"),
        ("a.safetensors", safetensors(b'{"a":{"data_offsets":"ab"}}'), "invalid literal"),
        ("a.safetensors", safetensors(b"[1]"), "AttributeError"),
        ("a.safetensors", safetensors(b'{"a":' + b"[" * 50_000), "nests deeper than 100 levels"),
        ("a.safetensors", b"\xff" * 8, "its header is longer than the file"),
        ("a.safetensors", b"\x00", "its header is longer than the file"),
        ("a.npy", npy(HEAD + b"(1,), "), "TokenError"),
        ("a.npy", npy(b"x:\n  1\n 2\n"), "IndentationError"),
        ("a.npy", npy(b"(" * 3000 + b")" * 3000), "header"),
        ("a.npy", npy(HEAD + b"(-1,), }"), r"its shape is \(-1,\)"),
        ("a.npy", npy(HEAD + b"(1,), }", b"\x03\x00"), "its form 3.0 is not known"),
        ("a.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "its header has 4294967295 bytes"),
        ("a.npz", of_unknown_method(), "That compression method is not supported"),
        ("a.npz", b"", "File is not a zip file"),
        ("a.json", b"1" * 6000, "digits"),
        ("a.json", b"[" * 200_000, "it nests too deep"),
        ("a.gz", b"\x1f\x8b\x08\xff" + b"x" * 100, "unknown header flags set"),
        ("a.parquet", b"PAR1", "unpack requires"),
    ],
)
def test_odd_headers_are_refused_with_their_reason(tmp_path, name, content, reason):
    path = tmp_path / "part"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"^{name} is not a whole \.\w+ file: .*{reason}"):
        check_structure(path, name)
