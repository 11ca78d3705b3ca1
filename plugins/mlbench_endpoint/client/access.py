"""How a server is reached: its headers, among them secrets, its certificate, and its URL."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from mlbench import UsageError
from mlbench_endpoint.client.failure import without_secrets
from mlbench_endpoint.options import EndpointOptions

EXAMPLE = "--set backend.url=http://localhost:8000/v1 (with backend.protocol=kserve without /v1)"

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_OWN_HEADERS = ("accept-encoding", "connection", "content-length", "content-type", "transfer-encoding")
_SHORTEST_SECRET = 4
"""Fewest characters of a header's value that are hidden where a server repeats it."""

_SECRET_PARAMETER = re.compile(r"(?i)key|token|secret|sig|code|pass|auth|cred")
_REQUEST_PATHS = ("/chat/completions", "/completions", "/models")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The headers and the checks of connections to all servers of a run."""

    headers: Mapping[str, str]
    secrets: Sequence[str]
    """Values that no record, log or error may hold."""
    tls: ssl.SSLContext | None
    """None: no option changes how certificates are checked."""

    @classmethod
    def of_options(cls, options: EndpointOptions) -> Self:
        """Return the access that options describe; secrets come from the environment.

        Raises:
            UsageError: a variable or a file is missing, or has a value that cannot be used.
        """
        key = _read_variable(options.key_variable, "backend.key_variable", "the API key")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        for name, variable in parse_headers(options.header_variables).items():
            headers[name] = _read_variable(variable, "backend.header_variables", f"the header {name}")
        secrets = [value for value in (key, *headers.values()) if len(value) >= _SHORTEST_SECRET or value == key]
        secrets = [value for value in secrets if value]
        return cls(headers=headers, secrets=secrets, tls=_tls(options))

    def redact(self, text: str) -> str:
        """Return a text without the secrets. Call it before cutting the text."""
        return without_secrets(text, self.secrets)


def parse_headers(text: str) -> Mapping[str, str]:
    """Return the variables of headers by the headers' names, from ``NAME=VARIABLE,...``.

    Raises:
        UsageError: a part has another form, or names a header that mlbench sets; it is not repeated.
    """
    found = {}
    for each in filter(None, map(str.strip, text.split(","))):
        name, has_value, variable = (part.strip() for part in each.partition("="))
        if not has_value or not _HEADER_NAME.fullmatch(name) or not variable:
            raise UsageError(
                "backend.header_variables is not NAME=VARIABLE,...", hint="Give it like api-key=MY_KEY_VARIABLE."
            )
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"the header {name} is set by mlbench.", hint="Leave it out.")
        found[name] = variable
    return found


def keep_headers(headers: Sequence[str], variables: Sequence[str]) -> str:
    """Put the values of headers (``NAME=VALUE``) into this process's environment, since records keep no secrets.

    Returns:
        Their variables, and those given (``NAME=VARIABLE``), as `parse_headers` reads them.

    Raises:
        UsageError: one has another form.
    """
    kept = list(variables)
    for each in headers:
        name, has_value, value = each.partition("=")
        if not has_value or not _HEADER_NAME.fullmatch(name.strip()):
            raise UsageError("--header is not NAME=VALUE.", hint="Give it like --header X-Route=a.")
        variable = f"MLBENCH_HEADER_{re.sub('[^A-Z0-9]', '_', name.strip().upper())}"
        if any(other.endswith(f"={variable}") for other in kept):
            raise UsageError(f"--header {name.strip()} is given twice, or like another one.", hint="Use --header-env.")
        os.environ[variable] = value.strip()
        kept.append(f"{name.strip()}={variable}")
    text = ",".join(kept)
    parse_headers(text)
    return text


def find_targets(urls: str, *, has_query: bool = True) -> tuple[str, ...]:
    """Return the URLs of the servers, from a text divided by commas.

    Args:
        urls: the user's.
        has_query: whether they may have a query, such as Azure's ``?api-version=...``.

    Raises:
        UsageError: there is none, or one is not a URL, ends with the path of a request, or may contain a secret.
    """
    targets = tuple(url.strip() for url in urls.split(",") if url.strip())
    if any(_may_have_secret(url, has_query=has_query) for url in targets):  # do not repeat it
        raise UsageError(
            "backend.url contains a user, a fragment or a query with a key, and records store it.",
            hint=f"Put a key into the environment variable {EndpointOptions().key_variable}, or name a header and its "
            "variable: --header-env api-key=VARIABLE (backend.header_variables).",
        )
    if not targets:
        raise UsageError(f"backend.url is {urls!r}.", hint=f"Set the server's address: {EXAMPLE}")
    for url in targets:
        if not url.startswith(("http://", "https://")):
            meant = EXAMPLE if "://" in url else f"http://{url} or https://{url}"
            raise UsageError(f"backend.url is {urls!r}.", hint=f"Begin it with http:// or https://: {meant}")
        if not has_address(url):
            raise UsageError(f"backend.url: {url} is not a URL of a host.", hint=f"Set the server's address: {EXAMPLE}")
        path = urlsplit(url).path.rstrip("/")
        if end := next((each for each in _REQUEST_PATHS if path.endswith(each)), ""):
            raise UsageError(
                f"backend.url is {url!r}, which ends with the path of a request.", hint=f"Leave {end} out."
            )
    return tuple(url if "?" in url else url.rstrip("/") for url in targets)


def has_address(url: str) -> bool:
    """Return whether a URL names a host, and no port or one that can be connected to."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # brackets that do not close; a port that is not a number, or is too large
        return False


def request_url(target: str, path: str) -> str:
    """Return the URL of a request: the path goes before a target's query."""
    base, mark, query = target.partition("?")
    return f"{base.rstrip('/')}/{path}{mark}{query}"


def _may_have_secret(url: str, *, has_query: bool) -> bool:
    query = url.partition("?")[2]
    if "@" in url or "#" in url or (query and not has_query):
        return True
    return any(_SECRET_PARAMETER.search(name) for name, _ in parse_qsl(query, keep_blank_values=True))


def _read_variable(variable: str, option: str, what: str) -> str:
    """Return a secret of the environment, which is never shown; empty for no name, or none under the default one.

    Raises:
        UsageError: it is missing, or has a character that no HTTP header can carry.
    """
    value = os.environ.get(variable, "").strip()
    if not value and variable not in ("", EndpointOptions().key_variable):
        raise UsageError(
            f"{option} is {variable!r}, but the environment has no such variable.", hint=f"Export {what} in it."
        )
    if not (value.isascii() and value.isprintable()):
        raise UsageError(
            f"{what} in {variable} has a character that no HTTP header can carry.", hint="Export it again."
        )
    return value


def _tls(options: EndpointOptions) -> ssl.SSLContext | None:
    """Return the checks of certificates; None: the default ones, with ``SSL_CERT_FILE`` if set."""
    if not options.ca and not options.insecure:
        return None
    try:
        context = ssl.create_default_context(cafile=options.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"backend.ca is {options.ca!r}, which cannot be read as certificates: {error.strerror or error}.",
            hint="Name a file in PEM form.",
        ) from None
    if options.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
