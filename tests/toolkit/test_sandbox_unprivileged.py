"""What an unprivileged user gets of the sandbox, with and without namespaces, where the tests run as root."""

import sys
import tempfile
from pathlib import Path

import pytest

from mlbench.toolkit.sandbox.job import is_root

REPOSITORY = Path(__file__).parents[2]
SANDBOX_TESTS = ("sandbox", "sandbox_escapes", "sandbox_removal", "sandbox_resources")

pytestmark = pytest.mark.skipif(
    not is_root(), reason="only root can become another user; for others all tests are this"
)


@pytest.fixture
def own(open_folder):
    """Return a folder of the user's own, where nobody else looks."""
    path = Path(tempfile.mkdtemp(dir=open_folder))
    path.chmod(0o711)
    (path / "own").mkdir()
    return path / "own"


CHECK = """
import os, sys
from mlbench.toolkit import Ending, Sandbox, SandboxLimits
print(os.getuid(), len(os.getgroups()))
sandbox = Sandbox.available()
print(sandbox.wall)
python = [sys.executable, "-I", "-S", "-c"]
with sandbox:
    with sandbox.folder({"file": "x"}) as folder:
        nest = "import os\\nos.mkdir('a', 0)\\nfor _ in range(1000): os.mkdir('d'); os.chdir('d')"
        folder.run([*python, nest])
        folder.run(["true"])
    print(os.listdir(sandbox._home))
    write = "import os\\nfor n in range(99): open(str(n), 'wb').write(bytes(1 << 20))\\nos.sched_yield()"
    print(sandbox.run([*python, write], limits=SandboxLimits(folder_bytes=8 << 20)).ending)
print(os.listdir(os.environ["TMPDIR"]))
"""


@pytest.mark.parametrize(("namespaces", "wall"), [("with", "namespaces"), ("without", "landlock")])
def test_an_unprivileged_user_has_a_wall_and_what_is_left_is_removed(namespaces, wall, own, run_as_user):
    done = run_as_user([sys.executable, "-c", CHECK], own, namespaces=namespaces)
    if f"{wall}: " in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.stdout.splitlines() == ["65534 0", wall, "['root']", "folder size", "[]"], done.stderr


@pytest.mark.thorough("attacks")
@pytest.mark.parametrize("namespaces", ["with", "without"])
@pytest.mark.parametrize("name", SANDBOX_TESTS)
def test_all_tests_of_the_sandbox_pass_for_an_unprivileged_user(name, namespaces, own, run_as_user):
    file = REPOSITORY / "tests" / "toolkit" / f"test_{name}.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(own / "pytest")]
    done = run_as_user([*command, str(file)], own, namespaces=namespaces)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
