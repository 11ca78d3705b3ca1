"""The options of a mock server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MockOptions:
    """A mock server, as the user describes it; delays in the forms of `mlbench_endpoint.mock_server.delays`."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: a free one."""
    model: str = "mock"
    ttft: str = "20ms"
    """Time from a request to its first token, drawn for each request."""
    tpot: str = "5ms"
    """Time between two tokens, drawn for each request."""
    jitter: str = "0"
    """Delay of a token behind its schedule, drawn for each token; it does not add up."""
    prefill: str = "0"
    """Time for each token of a prompt that the prefix cache does not have, on top of ``ttft``."""
    answer_tokens: str = ""
    """Lengths of answers where the model ends them; empty: as long as they may be."""
    slots: int = 1024
    """Most requests at once; others wait."""
    queue: int = 1_000_000
    """Most waiting requests; others are refused with 429."""
    context: int = 1 << 20
    """Most tokens of a prompt with its answer."""
    cache_blocks: int = 65_536
    """Blocks of 16 tokens in the prefix cache; 0: none."""
    key: str = ""
    """API key that requests need; empty: none."""
    headers: tuple[str, ...] = ()
    """Headers that requests need, each ``NAME: VALUE``."""
    metrics: str = "vllm"
    """Names of the metrics: those of ``vllm`` or ``sglang``; ``none``: no /metrics."""
    tls: tuple[str, str] | None = None
    """Files of a certificate and its key."""
    faults: tuple[str, ...] = ()
    """Faults, each ``NAME`` or ``NAME:SHARE``."""
    calm: int = 0
    """Number of requests at the beginning without faults."""
    seed: int = 0
