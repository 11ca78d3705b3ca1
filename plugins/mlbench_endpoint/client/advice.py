"""A server's refusal as an error, with the way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

from mlbench_endpoint.client.failure import RequestFailed, quote
from mlbench_endpoint.client.retry import retry_after_s
from mlbench_endpoint.options import EndpointOptions

NAME_THE_MODEL = "name the model with --model (backend.model)"

_CHECK = "check that the server runs, and backend.url and backend.model"
_CERTIFICATE = (
    "name the authority that signed it with --ca FILE (backend.ca) or in SSL_CERT_FILE, "
    "or leave the check out with --insecure (backend.insecure)"
)
_KEY = (
    f"put the API key into {EndpointOptions().key_variable}, or name its variable with --key-variable "
    "(backend.key_variable); other headers with --header-env NAME=VARIABLE"
)
_MOVED = "give the URL that it points to (Location), without the path of requests"
_RETRY = "--retries N sends a refused request again (backend.retries)"
_RENAME = """send the limit under the other name: --extra '{"max_tokens": null, "max_completion_tokens": 128}'"""
_LEAVE_OUT = """leave out a field that the server does not know: --extra '{"%s": null}' (backend.extra)"""
_FIELDS = (
    "stream_options",
    "ignore_eos",
    "min_tokens",
    "return_token_ids",
    "include_stop_str_in_output",
    "temperature",
)
_BAD_REQUESTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_ADVICE: Mapping[int, str] = {
    **dict.fromkeys((HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN), _KEY),
    **dict.fromkeys((HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE), _RETRY),
    **dict.fromkeys((301, 302, 303, 307, 308), _MOVED),
}


def explain_refusal(status: int, header: Callable[[str], str | None], url: str, body: bytes) -> RequestFailed:
    """Return the failure of a request that a server refused.

    Args:
        status: of HTTP.
        header: gives a header of the response; None: it has none.
        url: of the request, without its query.
        body: the beginning of the server's explanation.
    """
    shown = "".join(f" ({name}: {value})" for name in ("Location", "Retry-After") if (value := header(name)))
    explanation = quote(body)
    return RequestFailed(
        f"the server answered {status}{shown}: {explanation}",
        status=status,
        advice=_advise(status, url, explanation),
        retry_after_s=retry_after_s(header("Retry-After") or ""),
    )


def _advise(status: int, url: str, body: str) -> str:
    """Return what helps against a refusal; empty where nothing general does."""
    if advice := _ADVICE.get(status):
        return advice
    if status == HTTPStatus.NOT_FOUND and "/v1" not in url and "/v2" not in url:
        base = url.removesuffix("/models").removesuffix("/completions").removesuffix("/chat")
        return f"most servers answer below /v1: {base}/v1"
    if status in _BAD_REQUESTS:
        if "max_completion_tokens" in body:
            return _RENAME
        return next((_LEAVE_OUT % field for field in _FIELDS if field in body), "")
    return ""


def advise_on(error: Exception) -> str:
    """Return what helps against a failed request; empty where nothing general does."""
    if isinstance(error, RequestFailed):
        return error.advice
    return _CERTIFICATE if "CERTIFICATE_VERIFY" in str(error) else ""


def to_hint(advice: str) -> str:
    """Return advice as the hint of an error that ends a command; without any, the general one."""
    advice = advice or _CHECK
    return f"{advice[0].upper()}{advice[1:]}."
