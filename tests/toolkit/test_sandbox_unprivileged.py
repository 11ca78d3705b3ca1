"""What an unprivileged user gets of the sandbox, with and without namespaces, where the tests run as root."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mlbench.toolkit.sandbox.job import is_root

USER = 65534
REPOSITORY = Path(__file__).parents[2]
SANDBOX_TESTS = ("sandbox", "sandbox_escapes", "sandbox_removal", "sandbox_resources")

pytestmark = pytest.mark.skipif(
    not is_root(), reason="only root can become another user; for others all tests are this"
)

AS_USER = f"""
import os, sys
from pathlib import Path
from mlbench.toolkit.sandbox import linux, seccomp
staging, namespaces, *command = sys.argv[1:]

def show(paths):
    "Make folders readable that lie in folders closed to other users: in mounts of this process's own."
    closed = {{}}
    for path in paths:
        if shut := [parent for parent in reversed(path.parents) if not parent.stat().st_mode & 1]:
            closed.setdefault(shut[0], []).append(path)
    for parent, inside in closed.items():
        places = {{path: Path(staging, str(number)) for number, path in enumerate(inside)}}
        for path, place in places.items():
            place.mkdir()
            linux.mount(str(path), str(place), flags=linux.MS_BIND | linux.MS_REC)
        linux.mount("tmpfs", str(parent), "tmpfs", data="mode=755")
        for path, place in places.items():
            path.mkdir(parents=True, exist_ok=True)
            linux.mount(str(place), str(path), flags=linux.MS_BIND | linux.MS_REC)

linux.unshare(linux.CLONE_NEWNS)
linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
show(dict.fromkeys(Path(path).resolve() for path in (sys.base_prefix, sys.prefix, {str(REPOSITORY)!r})))
linux.become({USER})
if namespaces == "without":
    linux.gain_no_privileges()
    linux.filter_calls(seccomp.refusing({{"unshare"}}))
os.execv(command[0], command)
"""


@pytest.fixture
def folder():
    """Return a folder that others may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o711)
        yield Path(path)


def run_as_user(namespaces, command, folder):
    """Run a command as nobody, in a folder of theirs that all others may enter."""
    own = folder / "own"
    staging = folder / "staging"
    for path in (own, staging):
        path.mkdir()
    os.chown(own, USER, USER)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "TMPDIR": str(own),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    whole = [sys.executable, "-c", AS_USER, str(staging), namespaces, *command]
    done = subprocess.run(whole, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=False)
    if "unshare: Operation not permitted" in done.stderr:
        pytest.skip("no mounts may be made here")
    return done


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
def test_an_unprivileged_user_has_a_wall_and_what_is_left_is_removed(namespaces, wall, folder):
    done = run_as_user(namespaces, [sys.executable, "-c", CHECK], folder)
    if f"{wall}: " in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.stdout.splitlines() == [f"{USER} 0", wall, "['root']", "folder size", "[]"], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", ["with", "without"])
@pytest.mark.parametrize("name", SANDBOX_TESTS)
def test_all_tests_of_the_sandbox_pass_for_an_unprivileged_user(name, namespaces, folder):
    file = REPOSITORY / "tests" / "toolkit" / f"test_{name}.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", f"{folder}/own/pytest"]
    done = run_as_user(namespaces, [*command, str(file)], folder)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
