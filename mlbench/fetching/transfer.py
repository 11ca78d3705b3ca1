"""One request for the rest of a file, and every way in which its answer can be wrong."""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

from mlbench.errors import first_line
from mlbench.fetching.sources import unsafe_address
from mlbench.version import __version__

STALL_S = 60.0
"""A connection that sends nothing for so long is given up, and asked again for the rest."""

_WEB_PAGE = re.compile(rb"\s*(<!doctype html|<html)", re.IGNORECASE)
_SIGN_IN = "sign in there with a browser, download it by hand and give it with --from PATH"


class TransferError(Exception):
    """Why an address did not give the file: ``reason`` is a clause, ``remedy`` an imperative."""

    def __init__(self, reason: str, remedy: str = "", *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.may_pass = may_pass
        """Whether asking again may help."""


class ChangedError(TransferError):
    """The server has another file than the one whose first part is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAnswer:
    """An answer whose body is the file from byte ``start`` on."""

    start: int
    size_bytes: int | None
    """How long the whole file is, where the server says it."""
    validator: str
    """What names this version of the file: a strong ETag, else the time of its last change; may be empty."""
    body: http.client.HTTPResponse
    first: bytes
    """What was read of the body to look at it."""


@contextmanager
def request_rest(
    url: str, start: int, *, validator: str, is_verified: bool, stall_s: float = STALL_S
) -> Iterator[FileAnswer]:
    """Ask for a file from byte ``start`` on.

    Args:
        url: http or https.
        start: how many bytes are here.
        validator: of the answer that sent these; empty if there was none.
        is_verified: whether a published digest decides what the file must be; only then another host may send it.
        stall_s: how long a server may send nothing.

    Raises:
        TransferError: there is no such answer; also while its body is read.
        ChangedError: the server has another file now.
    """
    headers = {"User-Agent": f"mlbench/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        with _opener(is_verified).open(urllib.request.Request(url, headers=headers), timeout=stall_s) as body:
            yield _check_answer(url, start, validator, body)
    except TransferError:
        raise
    except urllib.error.HTTPError as error:
        raise _refusal(error, start) from None
    except (urllib.error.URLError, ssl.SSLError, TimeoutError, OSError, http.client.HTTPException) as error:
        raise _connection_failure(error, stall_s) from None


def read_block(answer: FileAnswer, block: memoryview) -> int:
    """Read what has arrived of a body into a block; return how much: 0 at its end."""
    return answer.body.readinto(block)


def _check_answer(url: str, start: int, validator: str, body: http.client.HTTPResponse) -> FileAnswer:
    headers = body.headers
    total, begins = _place(headers, body.status)
    found = _validator(headers)
    if begins and (begins != start or (validator and found and found != validator)):
        raise ChangedError(
            "the file changed on the server between two parts", "run it again to fetch it from its start"
        )
    first = b"" if begins else body.read1(512)
    is_page = headers.get_content_type() in {"text/html", "application/xhtml+xml"} or _WEB_PAGE.match(first)
    if is_page and not urlsplit(url).path.endswith((".html", ".htm")):
        raise TransferError("the server sent a web page, perhaps a login, in place of the file", _SIGN_IN)
    return FileAnswer(start=begins, size_bytes=total, validator=found, body=body, first=first)


def _place(headers: Message, status: int) -> tuple[int | None, int]:
    """Return the size of the whole file, and at which byte a body begins."""
    length = headers.get("Content-Length", "")
    if status != http.HTTPStatus.PARTIAL_CONTENT:
        return (int(length) if length.isdigit() else None), 0
    if not (found := re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", headers.get("Content-Range", ""))):
        raise TransferError("the server sent a part of the file without saying which", "try again later")
    return (int(found[3]) if found[3] != "*" else None), int(found[1])


def _validator(headers: Message) -> str:
    etag = headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")


def _refusal(error: urllib.error.HTTPError, start: int) -> TransferError:
    with error:
        status = error.code
    if status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
        return ChangedError("the file on the server is shorter than its part here", "run it again to fetch it anew")
    if status in {401, 403, 407, 451}:
        return TransferError(f"the server refuses it (status {status})", _SIGN_IN)
    if status in {404, 410}:
        return TransferError(f"it is no longer there (status {status})", "give a copy that you have with --from PATH")
    return TransferError(
        f"the server answers with status {status}", "try again later", may_pass=status >= 500 or status == 429
    )


def _connection_failure(error: Exception, stall_s: float) -> TransferError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLError):
        return TransferError(
            f"the connection is not secure: {first_line(reason, longest=120)}",
            "check this machine's clock and certificates (SSL_CERT_FILE)",
        )
    if isinstance(reason, TimeoutError):
        return TransferError(
            f"the server sent nothing for {stall_s:.0f} s", "run it again to continue at the same byte", may_pass=True
        )
    if isinstance(reason, http.client.IncompleteRead | ConnectionError | http.client.HTTPException):
        return TransferError("the connection ended early", "run it again to continue at the same byte", may_pass=True)
    return TransferError(
        f"no connection: {first_line(error, longest=120)}", "check the network, or HTTPS_PROXY", may_pass=True
    )


def _opener(is_verified: bool) -> urllib.request.OpenerDirector:
    """Return an opener for the web alone: no files of this machine, no FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(is_verified),
    ):
        opener.add_handler(handler)
    return opener


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirection where the new address is as safe as the old."""

    def __init__(self, is_verified: bool) -> None:
        self._is_verified = is_verified

    def redirect_request(  # noqa: PLR0913, PLR0917 - as the library calls it
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        problem = unsafe_address(newurl, is_verified=self._is_verified)
        is_downgrade = old.scheme == "https" and new.scheme == "http"
        if problem or is_downgrade or (new.hostname != old.hostname and not self._is_verified):
            fp.close()
            raise TransferError(
                f"the server sends on to {new.scheme}://{new.netloc}, and no published digest would tell another file",
                "download it by hand, check it, and give it with --from PATH",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)
