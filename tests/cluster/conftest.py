"""The secret of the tests, in a file."""

import networked
import pytest


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_bytes(networked.TOKEN + b"\n")
    file.chmod(0o600)
    return file
