"""Programs that would rather pass than be right, or end the scoring: each fails, and the next one runs."""

import os
import signal

import psutil
import pytest
from mlbench_mixtral_8x7b.mbxp import MbxpSample, score_mbxp
from mlbench_mixtral_8x7b.mbxp_languages import Interpreters

from mlbench import UnavailableError
from mlbench.toolkit import Outcome, Sandbox, Wall

CHECK = "def check(candidate):\n    assert candidate(1) == 2"
RIGHT = "def add(a):\n    return a + 1\n"
WRONG = "def add(a):\n    return a\n"
PASSES = b'{"outcome": "passed"}'

FORGERIES = {
    "print it": f"print({PASSES!r})",
    "leave with status 0": "import os; os._exit(0)",
    "leave with status 0 by exec": "import os; os.execv('/bin/true', ['true'])",
    "leave with status 0 by a signal's handler": """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.01)
while True: pass
""",
    "write it to every stream": f"""
import os
for number in range(64):
    try: os.write(number, {PASSES!r})
    except OSError: pass
os._exit(0)
""",
    "write it where the checker does, and something that is none": """
import os
for number in range(3, 64):
    try: os.write(number, b'[]')
    except OSError: pass
os._exit(0)
""",
    "read the checker's input again": f"""
import os
word = b''
for number in range(64):
    try:
        os.lseek(number, 0, 0)
        word += os.read(number, 32)
    except OSError: pass
for number in range(64):
    try: os.write(number, word + b' passed' + {PASSES!r})
    except OSError: pass
os._exit(0)
""",
    "read the command line": """
import os
words = open('/proc/self/cmdline', 'rb').read() + open('/proc/self/environ', 'rb').read()
for word in words.split():
    for number in range(3, 8):
        try: os.write(number, word + b' passed')
        except OSError: pass
os._exit(0)
""",
    "replace how the outcome is written": f"""
import json, os, sys
json.dumps = lambda *_: {PASSES.decode()!r}
write = os.write
os.write = lambda number, text: write(number, {PASSES!r})
sys.modules['__main__'].json = json
""",
    "replace how a failure is noticed": """
import builtins, contextlib, sys
passed = (lambda *_: True).__code__
contextlib._RedirectStream.__exit__.__code__ = passed
main = sys.modules['__main__']
main._outcome_of = lambda *_: 'passed'
main._TimeLimit = BaseException
builtins.BaseException = ()
builtins.AssertionError = ZeroDivisionError
builtins.exec = lambda *_: None
""",
    "replace the timer": "import signal; signal.setitimer = lambda *_: None",
    "an error whose text says passed": """
class Passed(BaseException):
    def __str__(self):
        return 'passed'
raise Passed
""",
    "an error whose text raises": """
class Worse(BaseException):
    def __str__(self):
        raise self
raise Worse
""",
    "an error whose text ends the checker": """
import os
class Worse(BaseException):
    def __str__(self):
        os._exit(0)
raise Worse
""",
    "a hook for what nobody catches": """
import os, sys
sys.excepthook = lambda *_: os._exit(0)
class Worse(BaseException):
    def __str__(self):
        raise self
raise Worse
""",
}

NUISANCES = {
    "folders 1,000 deep": "import os, posix\nfor _ in range(1000): os.mkdir('d'); posix.chdir('d')",
    "a path longer than any call takes": """
import os, posix
for _ in range(40):
    os.mkdir('n' * 255)
    posix.chdir('n' * 255)
""",
    "a folder without rights": "import os\nos.makedirs('a/b')\nos.mkdir('c', 0)",
    "output that is not text": """
import os
for number in range(1, 8):
    try: os.write(number, b'\\xff\\xfe\\x00')
    except OSError: pass
""",
    "endless output": """
import os
while True:
    for number in range(2, 8):
        try: os.write(number, bytes(1 << 20))
        except OSError: pass
""",
    "endless files": "number = 0\nwhile True:\n    open(str(number), 'wb').write(bytes(1 << 20))\n    number += 1",
    "endless memory": "kept = []\nwhile True: kept.append(bytearray(1 << 26))",
    "as many processes as it gets, which do not end": """
import posix, time
while True:
    try: posix.fork()
    except OSError: break
time.sleep(3600)
""",
    "endless recursion in C": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "all signals to all": """
import posix
for pid in (-1, 0, 1, posix.getppid()):
    for number in range(1, 65):
        try: posix.kill(pid, number)
        except OSError: pass
""",
    "its own limits": "import resource",
    "a lone surrogate": "# \ud800",
    "a null byte": "\0",
    "an endless line": "a = " + "(" * 100_000,
}


@pytest.fixture(scope="module", params=Wall)
def sandbox(request):
    if request.param is Wall.NONE:
        return Sandbox(Wall.NONE)
    found = Sandbox.available()
    if found.wall is not request.param and request.param is Wall.NAMESPACES:
        pytest.skip("namespaces do not stand here")
    with Sandbox(request.param) as opened:
        try:
            opened.run(["true"])
        except UnavailableError as error:
            pytest.skip(str(error))
    return Sandbox(request.param)


def verdicts(sandbox, programs):
    """Score programs, and one that is right after each; return what became of the first, by name."""
    samples = [
        MbxpSample(id="python_add", answer=answer, test=CHECK)
        for program in programs.values()
        for answer in (f"{program}\n{WRONG}", RIGHT)
    ]
    result = score_mbxp(samples, sandbox)
    assert [verdict.outcome for verdict in result.verdicts[1::2]] == ["passed"] * len(programs)
    return dict(zip(programs, (verdict.outcome for verdict in result.verdicts[::2]), strict=True))


@pytest.mark.slow
def test_no_forged_verdict_counts(sandbox):
    found = verdicts(sandbox, FORGERIES)
    assert {name: outcome for name, outcome in found.items() if not outcome.startswith("failed")} == {}


@pytest.mark.thorough("attacks")
def test_no_program_ends_the_scoring_of_others(sandbox):
    if sandbox.wall is Wall.NONE and os.geteuid():
        pytest.skip("without a wall a program of the same user may end anything")
    found = verdicts(sandbox, NUISANCES)
    assert not any(outcome == "passed" for outcome in found.values()), found


class Failing:
    """A sandbox that one program brings to raise, and that runs the others: or does not."""

    def __init__(self, error, *, recovers):
        self.error, self.recovers = error, recovers

    def run(self, command, **_):
        if list(command) == ["true"] and self.recovers:
            return Outcome(ending="exit", returncode=0, stdout=b"", stderr=b"", wall_ns=1)
        raise self.error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnavailableError("no program:\nits supervisor has ended."), "failed: no program: its supervisor has ended."),
        (OSError(28, "No space left on device"), "failed: [Errno 28] No space left on device"),
        (RecursionError("maximum recursion depth exceeded"), "failed: maximum recursion depth exceeded"),
        (KeyError(), "failed: KeyError"),
    ],
)
def test_whatever_the_sandbox_raises_for_one_program_is_its_failure(error, outcome):
    interpreters = Interpreters(sandbox=Failing(error, recovers=True), programs={})
    assert interpreters.outcome("python", WRONG, CHECK, "add") == outcome


def test_a_sandbox_that_runs_nothing_any_more_ends_the_scoring():
    broken = Failing(UnavailableError("its keeper has ended"), recovers=False)
    with pytest.raises(UnavailableError, match="its keeper has ended"):
        Interpreters(sandbox=broken, programs={}).outcome("python", RIGHT, CHECK, "add")


def test_a_keeper_that_is_killed_costs_one_program():
    with Sandbox(Wall.NONE) as sandbox:
        interpreters = Interpreters(sandbox=sandbox, programs={})
        assert interpreters.outcome("python", RIGHT, CHECK, "add") == "passed"
        os.kill(sandbox._keeper.pid, signal.SIGKILL)
        psutil.Process(sandbox._keeper.pid).wait()
        assert "its keeper has ended" in interpreters.outcome("python", RIGHT, CHECK, "add")
        assert interpreters.outcome("python", RIGHT, CHECK, "add") == "passed"
