"""Addresses and the file with the secret."""

import pytest

from mlbench import UsageError
from mlbench.cluster.addresses import Address, make_token, read_token
from mlbench.errors import DataError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.2:4300", "10.0.0.2", 4300),
        ("node-3.example", "node-3.example", 4210),
        ("[::1]:80", "::1", 80),
        ("[fe80::1]", "fe80::1", 4210),
    ],
)
def test_an_address_is_a_host_and_a_port(text, host, port):
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", ":", ":4210", "host:", "host:x", "host:65536", "::1", "a b:1", "host:-1", "h:²"])
def test_what_is_no_address_is_refused_by_its_text(text):
    with pytest.raises(UsageError, match="is not the address of a node") as caught:
        Address.parse(text)
    assert repr(text) in str(caught.value)


def test_a_new_secret_is_long_its_owners_alone_and_written_once(tmp_path):
    file = tmp_path / "made" / "token"
    assert make_token(file)
    token = read_token(file)
    assert len(token) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    assert not make_token(file)
    assert read_token(file) == token


def test_a_secret_that_others_may_read_is_none(token_file):
    token_file.chmod(0o640)
    with pytest.raises(DataError, match=r"may be read by other users\. chmod 600"):
        read_token(token_file)


@pytest.mark.parametrize(("held", "count"), [(b"short\n", 5), (b"x" * 5000, 4097), (b"", 0)])
def test_a_secret_has_a_bounded_length(token_file, held, count):
    token_file.write_bytes(held)
    with pytest.raises(DataError, match=f"contains {count} characters"):
        read_token(token_file)


def test_a_missing_secret_says_who_writes_one(tmp_path):
    with pytest.raises(DataError, match=r"No such file or directory\. `mlbench serve` writes one"):
        read_token(tmp_path / "none")
