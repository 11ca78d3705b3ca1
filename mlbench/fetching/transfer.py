"""One request for the rest of a file, and every way in which its answer can be wrong."""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

from mlbench.errors import describe_error, first_line, one_line
from mlbench.fetching.digests import BLOCK_BYTES
from mlbench.fetching.progress import ClockedHandler, ProgressClock, SecureClockedHandler, StalledError
from mlbench.fetching.sources import unsafe_address
from mlbench.system.documents.kinds import PAGE
from mlbench.version import __version__

_PAGES = (".html", ".htm", ".xhtml", ".xml", ".svg")
_PACKED = (".gz", ".tgz", ".z")
"""Files that some servers call packed in the header as well, and send as they are."""

_SIGN_IN = "sign in there with a browser, download it by hand and give it with --from PATH"
_CONTINUE = "run it again to continue at the same byte"
_NUMBER = "[0-9]{1,18}"
_LOOK_BYTES = 512


class TransferError(Exception):
    """An address failed to send the file: ``reason`` is a clause, ``remedy`` an imperative."""

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
    """Size of the whole file, if the server gives it."""
    validator: str
    """Version of the file: a strong ETag, else the time of its last change; may be empty."""
    is_chunked: bool
    """Whether the body itself says where it ends."""
    read: Callable[[int], bytes]
    """Returns some bytes of the body, at its end none."""
    first: bytes
    """The beginning of the body, read for a check."""

    def blocks(self) -> Iterator[bytes]:
        """Yield the body; raises `TransferError`."""
        if self.first:
            yield self.first
        while block := self.read(BLOCK_BYTES):
            yield block


@contextmanager
def request_rest(
    url: str, start: int, *, validator: str, is_verified: bool, clock: ProgressClock
) -> Iterator[FileAnswer]:
    """Ask for a file from byte ``start`` on.

    Args:
        url: http or https.
        start: how many bytes are here.
        validator: of the answer that sent these; empty if there was none.
        is_verified: whether a published digest decides what the file must be; only then another host may send it.
        clock: says how long a server may send nothing, or next to nothing.

    Raises:
        TransferError: there is no such answer; also while its body is read.
        ChangedError: the server has another file now.
    """
    headers = {"User-Agent": f"mlbench/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with _foreign_answer(start, clock.window_s):
        request = urllib.request.Request(url, headers=headers)
        body = _opener(is_verified, clock).open(request, timeout=clock.window_s)
    with body:

        def read(size_bytes: int) -> bytes:
            with _foreign_answer(start, clock.window_s):
                block: bytes = body.read1(size_bytes)
                clock.count(len(block))
                return block

        with _foreign_answer(start, clock.window_s):
            total, begins = _check_headers(url, start, validator, body, is_verified=is_verified)
        first = b"" if begins else _begin(read)
        if not begins:
            _refuse_page(url, body.headers, first)
        yield FileAnswer(
            start=begins,
            size_bytes=total,
            validator=_validator(body.headers),
            is_chunked=body.headers.get("Transfer-Encoding", "").strip().lower() == "chunked",
            read=read,
            first=first,
        )


@contextmanager
def _foreign_answer(start: int, stall_s: float) -> Iterator[None]:
    """Turn whatever an answer makes the library raise into a `TransferError`."""
    try:
        yield
    except TransferError:
        raise
    except urllib.error.HTTPError as error:
        raise _refusal(error, start) from None
    except Exception as error:  # as behind every door: what a server's bytes bring about cannot be listed
        raise _failure(error, stall_s) from None


def _begin(read: Callable[[int], bytes]) -> bytes:
    """Return the first bytes of a body, however few come at a time."""
    begin = b""
    while len(begin) < _LOOK_BYTES and (more := read(_LOOK_BYTES - len(begin))):
        begin += more
    return begin


def _check_headers(
    url: str, start: int, validator: str, body: http.client.HTTPResponse, *, is_verified: bool
) -> tuple[int | None, int]:
    """Return the size of the whole file, and at which byte the body begins."""
    total, begins = _place(body.headers, body.status)
    found = _validator(body.headers)
    if begins and (begins != start or (validator and found and found != validator)):
        raise ChangedError(
            "the file changed on the server between two parts", "run it again to fetch it from its start"
        )
    packed = body.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in {"", "identity"} and not is_verified and not _path(url).endswith(_PACKED):
        raise TransferError(
            f"the server sent it packed ({packed[:20]}) without being asked to",
            "give a copy with --from PATH",
        )
    return total, begins


def _refuse_page(url: str, headers: Message, first: bytes) -> None:
    is_page = headers.get_content_type() in {"text/html", "application/xhtml+xml"} or PAGE.match(first)
    if is_page and not _path(url).endswith(_PAGES):
        raise TransferError("the server sent a web page, perhaps a login, in place of the file", _SIGN_IN)


def _path(url: str) -> str:
    return urlsplit(url).path.lower()


def _length(headers: Message) -> int | None:
    """Return the length of a body; None where it is not said, or the body says it itself."""
    said = {each.strip() for each in headers.get_all("Content-Length", ())}
    if len(said) > 1:
        raise TransferError("the server gives two lengths that differ", "try again later")
    length = said.pop() if said else ""
    if length and not re.fullmatch(_NUMBER, length):
        raise TransferError(f"the server gives an odd length: {length[:20]!r}", "try again later")
    return int(length) if length and "Transfer-Encoding" not in headers else None


def _place(headers: Message, status: int) -> tuple[int | None, int]:
    """Return the size of the whole file, and at which byte a body begins."""
    length = _length(headers)
    if status != http.HTTPStatus.PARTIAL_CONTENT:
        return length, 0
    wanted = rf"bytes ({_NUMBER})-({_NUMBER})/({_NUMBER}|\*)"
    if not (found := re.fullmatch(wanted, headers.get("Content-Range", ""))):
        raise TransferError("the server sent a part of the file without saying which", "try again later")
    begin, end = int(found[1]), int(found[2])
    if length not in (None, end + 1 - begin):
        raise TransferError("the server gives two lengths that differ", "try again later")
    return (int(found[3]) if found[3] != "*" else None), begin


def _validator(headers: Message) -> str:
    etag = headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")


def _refusal(error: urllib.error.HTTPError, start: int) -> TransferError:
    error.close()
    status = error.code
    if status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
        return ChangedError("the file on the server is shorter than its part here", "run it again to fetch it")
    if status in {401, 403, 407, 451}:
        return TransferError(f"the server refuses it (status {status})", _SIGN_IN)
    if status in {404, 410}:
        return TransferError(f"it is no longer there (status {status})", "give a copy that you have with --from PATH")
    return TransferError(
        f"the server answers with status {status}", "try again later", may_pass=status >= 500 or status == 429
    )


def _failure(error: Exception, stall_s: float) -> TransferError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLError):
        return TransferError(
            f"the connection is not secure: {first_line(reason, longest=120)}",
            "check this machine's clock and certificates (SSL_CERT_FILE)",
        )
    if isinstance(reason, StalledError):
        return TransferError(first_line(reason), _CONTINUE, may_pass=True)
    if isinstance(reason, TimeoutError):
        return TransferError(f"the server sent nothing for {stall_s:.0f} s", _CONTINUE, may_pass=True)
    if isinstance(reason, http.client.HTTPException | ConnectionError):
        return TransferError("the connection ended early", _CONTINUE, may_pass=True)
    if isinstance(error, OSError):
        return TransferError(
            f"no connection: {first_line(error, longest=120)}", "check the network, or HTTPS_PROXY", may_pass=True
        )
    return TransferError(
        f"the server's answer cannot be read ({one_line(describe_error(error), longest=120)})", "try again later"
    )


def _opener(is_verified: bool, clock: ProgressClock) -> urllib.request.OpenerDirector:
    """Return an opener for the web alone: no files of this machine, no FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        ClockedHandler(clock),
        SecureClockedHandler(clock),
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

    def http_error_302(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage) -> Any:
        """Follow a redirection without its body: the library would read all of it, and it may be endless."""
        fp.close()
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

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
            raise TransferError(
                f"the server sends on to {new.scheme}://{new.netloc}, and no published digest would tell another file",
                "download it by hand, check it, and give it with --from PATH",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)
