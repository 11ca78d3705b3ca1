"""The number of client processes, and the division of places."""

import pytest
from mlbench_endpoint.client import processes as client_processes
from mlbench_endpoint.client.answer import AnswerFormat
from mlbench_endpoint.client.processes import choose_processes
from mlbench_endpoint.client.settings import ClientSettings
from mlbench_endpoint.options import EndpointOptions


@pytest.mark.parametrize(
    ("wanted", "connections", "threads", "count"),
    [
        ("auto", 64, 64, 1),
        ("auto", 256, 64, 2),
        ("auto", 4096, 64, 8),
        ("auto", 4096, 8, 2),
        ("auto", 4096, 2, 1),
        (3, 64, 2, 3),
        (8, 2, 2, 2),
    ],
)
def test_there_are_as_many_as_places_and_threads_allow(monkeypatch, wanted, connections, threads, count):
    monkeypatch.setattr(client_processes, "usable_threads", lambda: threads)
    form = AnswerFormat(is_text=True, is_stream=True, vocabulary=0, choices=1, has_usage=True)
    options = EndpointOptions(client_processes=wanted, connections=connections)
    assert choose_processes(ClientSettings(targets=[], fields={}, format=form, options=options)) == count
