import pytest
from scripted_server import ScriptedServer


@pytest.fixture
def server():
    running = ScriptedServer()
    yield running
    running.close()
