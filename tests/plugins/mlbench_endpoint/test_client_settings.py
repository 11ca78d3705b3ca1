"""The settings of the process that talks to servers, on their way to it."""

import json

from mlbench_endpoint.api import Api
from mlbench_endpoint.client.answer import AnswerFormat
from mlbench_endpoint.client.settings import ClientSettings
from mlbench_endpoint.options import EndpointOptions

SETTINGS = ClientSettings(
    targets=["http://one:8000/v1", "http://two:8000/v1"],
    fields={"temperature": 0, "stream_options": {"include_usage": True}},
    format=AnswerFormat(is_text=True, api=Api.CHAT, is_stream=True, vocabulary=0, choices=1, has_usage=False),
    options=EndpointOptions(api=Api.CHAT, connections=3, timeout_s=1.5, key_variable="MY_KEY"),
)


def test_settings_arrive_as_they_were_sent():
    found = ClientSettings.of_line(SETTINGS.to_line())
    assert found == SETTINGS
    assert (type(found.format.api), type(found.options.api)) == (Api, Api)  # text is equal to it, and has no path


def test_settings_are_one_line_without_the_api_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", "a-secret")
    line = SETTINGS.to_line()
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert json.loads(line)["options"]["key_variable"] == "MY_KEY"
    assert b"a-secret" not in line
