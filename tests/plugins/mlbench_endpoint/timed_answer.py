"""An answer of a server with the times of its chunks."""

from mlbench_endpoint.client.messages import Answered


def timed_answer(chunk_ns, *, sent_ns=0, end_ns=None, tokens=None):
    """Return an answer whose chunks came at these times, with a token each unless ``tokens`` says otherwise."""
    return Answered(
        id=1,
        answer="",
        finish="stop",
        prompt_tokens=7,
        answer_tokens=tokens or len(chunk_ns),
        attempts=1,
        sent_ns=sent_ns,
        first_ns=chunk_ns[0] if chunk_ns else 0,
        at_ns=chunk_ns[-1] if end_ns is None else end_ns,
        chunk_ns=chunk_ns,
    )
