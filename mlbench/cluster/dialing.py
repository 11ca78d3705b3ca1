"""Connections from a client to a node."""

from __future__ import annotations

import queue
import socket
import ssl
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ValidationError

from mlbench.cluster.addresses import Address, read_token
from mlbench.cluster.handshake import HANDSHAKE_S, ClosedError, NotOurProtocolError, RefusedError, greet_node
from mlbench.cluster.link import Link, OnEnd, OnMessage
from mlbench.cluster.tls import client_context
from mlbench.errors import UsageError
from mlbench.execution.instances.messages import Message
from mlbench.records.job_spec import NetworkSpec
from mlbench.records.node_record import NodeRecord
from mlbench.system.documents import first_problem
from mlbench.system.guards import undo_on_error

CONNECTS_WITHIN_S = 10.0
_ANSWERS_WITHIN_S = 10.0
_TRIES = 5
_BETWEEN_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialer:
    """What a client needs to be admitted by its nodes."""

    token: bytes
    tls: ssl.SSLContext | None

    @classmethod
    def of_spec(cls, spec: NetworkSpec) -> Self:
        """Return the credentials that a specification names; raises `DataError` for an unreadable file."""
        return cls(
            token=read_token(Path(spec.token_file)),
            tls=client_context(Path(spec.certificate)) if spec.certificate else None,
        )

    def dial(self, address: Address) -> socket.socket:
        """Return a connection to a node, after the handshake.

        Raises:
            UsageError: nothing answers there, it is no node, or it refuses this client.
        """
        left = _TRIES
        while True:
            try:
                return self._dial(address)
            except (OSError, NotOurProtocolError, RefusedError, UsageError) as error:
                left -= 1
                if not left or not isinstance(error, (ConnectionResetError, BrokenPipeError, ClosedError)):
                    raise _refusal(address, error, has_tls=bool(self.tls)) from None
            time.sleep(_BETWEEN_S)  # it went to a process that was about to end

    def _dial(self, address: Address) -> socket.socket:
        line = socket.create_connection((address.host, address.port), CONNECTS_WITHIN_S)
        with undo_on_error(lambda: line.close()):  # noqa: PLW0108 - the wrapped one, once there is one
            line.settimeout(HANDSHAKE_S)
            if self.tls:
                line = self.tls.wrap_socket(line, server_hostname=address.host)
            greet_node(line, self.token)
        return line


def _refusal(address: Address, error: Exception, *, has_tls: bool) -> UsageError:
    """Return a readable error for a failed connection."""
    match error:
        case UsageError():
            what, hint = f"node {address}: {error.message}", error.hint
        case RefusedError():
            what, hint = f"node {address}: {error}.", "Use the node's token file with --token-file."
        case ssl.SSLCertVerificationError():
            what, hint = f"node {address}: its certificate is not trusted: {error.verify_message}.", ""
        case NotOurProtocolError() | ssl.SSLError() | ConnectionResetError() | BrokenPipeError():
            what = f"{address} does not speak mlbench's protocol: {getattr(error, 'reason', None) or error}."
            hint = "Is it served without --certificate?" if has_tls else "If it serves TLS, give --certificate."
        case TimeoutError():
            what, hint = f"{address} does not answer in time.", "Is a node served there?"
        case OSError():
            what = f"{address} does not answer: {error.strerror or error}."
            hint = "Start it there with `mlbench serve`."
    return UsageError(what, hint=hint)


_Answer = TypeVar("_Answer")


def next_of(answers: queue.Queue[_Answer], timeout_s: float) -> _Answer | None:
    """Wait for the next of some answers; None when none comes in time."""
    try:
        return answers.get(timeout=timeout_s)
    except queue.Empty:
        return None


def open_link(line: socket.socket, role: str, session: str, on_message: OnMessage, on_end: OnEnd) -> Link:
    """Return a link with its first message sent."""
    link = Link(line, f"mlbench-{role}", on_message, on_end)
    link.start()
    link.send("open", role=role, session=session)
    return link


def new_session() -> str:
    """Return an id that no other session has."""
    return uuid.uuid4().hex


def ask_facts(spec: NetworkSpec) -> Sequence[NodeRecord]:
    """Return the facts of each node.

    Raises:
        UsageError: one does not answer, is not a node, or refuses this client.
    """
    dialer = Dialer.of_spec(spec)
    return [ask_node(Address.parse(text), dialer) for text in spec.nodes]


def ask_node(address: Address, dialer: Dialer) -> NodeRecord:
    """Return the facts of a node; raises as `ask_facts`."""
    answers: queue.Queue[Message | str] = queue.Queue()

    def take(link: Link, answer: Message | str) -> None:
        answers.put(answer)

    with closing(open_link(dialer.dial(address), "facts", "", take, take)):
        answer = next_of(answers, _ANSWERS_WITHIN_S)
    if not isinstance(answer, Message) or answer.kind != "facts":
        reason = answer if isinstance(answer, str) else "does not report what it serves"
        raise UsageError(f"node {address} {reason}.", hint="Look at its log.")
    return read_facts(address, answer.facts.get("node"))


def read_facts(address: Address, fields: Any) -> NodeRecord:
    """Return a node's facts from JSON values; raises `UsageError` where they are none."""
    try:
        return NodeRecord.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"node {address}: {first_problem(error, whole='its description')}.") from None
