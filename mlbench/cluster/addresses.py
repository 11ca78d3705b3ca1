"""The address of a node, and the secret that it shares with its clients."""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mlbench.errors import DataError, UsageError

DEFAULT_PORT = 4210
_LARGEST_PORT = 65535
_FEWEST_CHARACTERS = 16
_MOST_TOKEN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port of TCP."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address that ``HOST:PORT``, ``HOST`` or ``[IPv6]:PORT`` names.

        Raises:
            UsageError: it is none.
        """
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        is_bracketed = host.startswith("[") and host.endswith("]")
        name = host[1:-1] if is_bracketed else host
        is_port = port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT
        if not name.isprintable() or not name or " " in name or (":" in name and not is_bracketed) or not is_port:
            raise UsageError(
                f"{text!r} is not the address of a node.",
                hint=f"Write HOST:PORT, or HOST for port {DEFAULT_PORT}.",
            )
        return cls(name, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_token(file: Path) -> bytes:
    """Return the secret in a file, without blanks around it.

    Raises:
        DataError: the file cannot be read, holds no secret of at least 16 characters, or others may read it.
    """
    try:
        others = stat.S_IMODE(file.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
        with file.open("rb") as opened:
            token = opened.read(_MOST_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise DataError(
            f"token file {file}: {error.strerror}.", hint="`mlbench serve` writes one; copy it to the client."
        ) from None
    if others:
        raise DataError(f"token file {file} may be read by other users.", hint=f"chmod 600 {file}")
    if not _FEWEST_CHARACTERS <= len(token) <= _MOST_TOKEN_BYTES:
        raise DataError(
            f"token file {file} contains {len(token)} characters.",
            hint=f"Expected {_FEWEST_CHARACTERS} to {_MOST_TOKEN_BYTES}.",
        )
    return token


def make_token(file: Path) -> bool:
    """Write a new secret to a file that only its owner may read, unless there is one; return whether it was written.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"token file {file}: {error.strerror}.", hint="Name another with --token-file.") from None
    with os.fdopen(descriptor, "w") as opened:
        opened.write(f"{secrets.token_hex()}\n")
    return True
