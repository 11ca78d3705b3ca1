"""A mock server in a process of its own, as a user starts it."""

import subprocess
import sys
from contextlib import contextmanager

COMMAND = (sys.executable, "-m", "mlbench", "mock-server")


@contextmanager
def serving(*words):
    """Yield the URL of a server that is started with these options."""
    command = [*COMMAND, "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()
