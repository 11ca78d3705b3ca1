"""TLS of nodes and clients, as the standard library has it."""

from __future__ import annotations

import ssl
from pathlib import Path

from mlbench.errors import DataError


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a node's side; raises `DataError` where the files are no certificate and its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{certificate} and {key} are not a certificate and its key: {_reason(error)}.",
            hint="Both are PEM files, the key without a password.",
        ) from None
    return context


def client_context(certificate: Path) -> ssl.SSLContext:
    """Return a client's side, which trusts what this certificate signed; raises `DataError` if the file holds none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(certificate)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{certificate} contains no certificate: {_reason(error)}.", hint="Expected a PEM file."
        ) from None
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
