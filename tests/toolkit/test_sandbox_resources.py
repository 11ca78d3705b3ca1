"""Attacks on memory and disk: made without a sandbox they succeed, behind each wall they are refused or ended."""

import os
import subprocess
import sys

import pytest

from mlbench.toolkit import Ending, Sandbox, SandboxLimits, Wall
from mlbench.toolkit.sandbox.probe import weakness

PYTHON = (sys.executable, "-I", "-S", "-c")
MIB = 1 << 20
FREE_BYTES = 4 * MIB
"""What each attack takes without a sandbox: little, and yet it shows that the way is open."""

ATTACKED_BYTES = 400 * MIB
LIMITS = SandboxLimits(wall_s=60, memory_bytes=96 * MIB, folder_bytes=32 * MIB, output_bytes=MIB, processes=64)

# Each takes `size` bytes in a way of its own, and puts what would let go of them into `kept`.
MEMORY = {
    "memory": "kept.append(bytearray(size))",
    "memory of many processes": """
def hold():
    kept.append(b"x" * (size // 8))
in_processes(8, hold)
""",
    "memory of processes whose first thread has ended": """
def hold():
    import _thread
    _thread.start_new_thread(lambda: (kept.append(b"x" * (size // 8)), time.sleep(600)), ())
    while size > 4 * MIB:
        libc.syscall(60, 0)
in_processes(8, hold)
""",
    "memory that grows downwards": """
place = libc.mmap(None, size, 3, 0x122, -1, 0)
assert place != 2**64 - 1
ctypes.memset(place, 1, size)
""",
    "shared memory": "write(mmap.mmap(-1, size))",
    "shared memory, let go of": """
memory = mmap.mmap(-1, size)
for start in range(0, size, 4 * MIB):
    write(memory, start, start + 4 * MIB)
    memory.madvise(mmap.MADV_DONTNEED)
kept.append(memory)
""",
    "shared memory of which a page is mapped": """
for _ in range(size // (4 * MIB)):
    place = libc.mmap(None, 4 * MIB, 3, 0x21, -1, 0)
    assert place not in {None, 2**64 - 1}
    ctypes.memset(place, 1, 4 * MIB)
    libc.munmap(ctypes.c_void_p(place), 4 * MIB - 4096)
""",
    "memory of the device of zeros": """
device = os.open("/dev/zero", os.O_RDWR)
memory = mmap.mmap(device, size)
write(memory)
memory.madvise(mmap.MADV_DONTNEED)
""",
    "a segment of System V": """
segment = libc.shmget(0, size, 0o1600)
assert segment != -1
place = libc.shmat(segment, None, 0)
libc.shmctl(segment, 0, None)
assert place != 2**64 - 1
ctypes.memset(place, 1, size)
""",
    "messages of System V": """
text = ctypes.create_string_buffer(b"\\1" + bytes(7) + b"x" * 8000)
for _ in range(size // 16000 if size > 4 * MIB else 1):
    queue = libc.msgget(0, 0o1600)
    assert queue != -1
    sent = libc.msgsnd(queue, text, 8000, 0o4000)
    if size <= 4 * MIB:
        libc.msgctl(queue, 0, None)
    assert sent == 0
""",
    "a file without a name": """
kept.append(os.memfd_create("x"))
os.write(kept[-1], bytes(size))
""",
    "many pipes": """
def hold():
    for _ in range(120):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.write(writer, bytes(65536))
in_processes(20, hold)
""",
    "large pipes": """
reader, writer = os.pipe()
fcntl.fcntl(writer, 1031, MIB)
""",
    "pages given to a pipe": """
reader, writer = os.pipe()
memory = ctypes.create_string_buffer(65536)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(memory), 65536)
assert libc.vmsplice(writer, vector, 1, 0) > 0
""",
    "many sockets": """
def hold():
    for _ in range(100):
        one, other = socket.socketpair()
        one.setblocking(False)
        assert one.send(bytes(65536)) > 0
        kept.extend((one, other))
in_processes(10, hold)
""",
    "large sockets": """
one, other = socket.socketpair()
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MIB)
""",
    "messages that nobody takes": """
server = socket.socket(socket.AF_UNIX)
server.bind(chr(0) + f"mlbench-{os.getpid()}")
server.listen(4096)
client = socket.socket(socket.AF_UNIX)
client.connect(server.getsockname())
client.setblocking(False)
client.send(bytes(65536))
client.close()
""",
    "tables of pages": """
reach = min(60 << 30, size << 9)
def hold():
    place = libc.mmap(None, reach, 1, 0x4022, -1, 0)
    assert place != 2**64 - 1
    for start in range(place, place + reach, 2 * MIB):
        ctypes.string_at(start, 1)
in_processes(4, hold)
""",
    "a stream that is to be read": "assert os.write(0, bytes(size)) == size",
    "room beyond the end of a stream": """
assert libc.fallocate(1, 1, ctypes.c_long(0), ctypes.c_long(size)) == 0
""",
    "hiding what is open": "assert libc.prctl(4, 0, 0, 0, 0) == 0",
}

DISK = {
    "a large file": """
with open("f", "wb") as file:
    for _ in range(size // MIB):
        file.write(bytes(MIB))
""",
    "many files": """
for number in range(size // MIB):
    open(str(number), "wb").write(bytes(MIB))
""",
    "empty files": """
for number in range(size >> 12):
    open(str(number), "w").close()
""",
    "files in a folder that cannot be listed": """
os.mkdir("d", 0o300)
for number in range(size // MIB):
    open(f"d/{number}", "wb").write(bytes(MIB))
""",
    "files deep down": """
for number in range(size // MIB):
    for _ in range(150 if not number else 0):
        os.mkdir("d")
        os.chdir("d")
    open(str(number), "wb").write(bytes(MIB))
""",
    "files that are removed and open": """
for number in range(size // MIB):
    kept.append(open("f", "wb"))
    kept[-1].write(bytes(MIB))
    kept[-1].flush()
    os.remove("f")
""",
    "files that never had a name": """
for number in range(size // MIB):
    kept.append(os.open(".", os.O_TMPFILE | os.O_WRONLY))
    os.write(kept[-1], bytes(MIB))
""",
    "room beyond the end of a file": """
kept.append(os.open("f", os.O_CREAT | os.O_WRONLY))
assert libc.fallocate(kept[-1], 1, ctypes.c_long(0), ctypes.c_long(size)) == 0
""",
    "a file that is mapped": """
file = open("f", "w+b")
file.truncate(size)
write(mmap.mmap(file.fileno(), size))
""",
    "shared memory by name": """
for number in range(size // MIB):
    open(f"/dev/shm/mlbench-{os.getpid()}-{number}", "wb").write(bytes(MIB))
    if size <= 4 * MIB:
        os.remove(f"/dev/shm/mlbench-{os.getpid()}-{number}")
""",
}

PROGRAM = """
import ctypes, fcntl, mmap, os, socket, sys, time
MIB, size, kept = 1 << 20, int(sys.argv[1]), []
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.shmat.restype = ctypes.c_size_t
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
def write(memory, start=0, end=None):
    for place in range(start, end or size, MIB):
        memory[place:place + MIB] = b"x" * MIB
    kept.append(memory)
def in_processes(number, hold):
    "Hold in so many processes, which stay; in this one where little is asked for."
    if size <= 4 * MIB:
        return hold()
    for _ in range(number):
        if os.fork() == 0:
            hold()
            time.sleep(600)
            os._exit(0)
exec(sys.argv[2])
print("held", flush=True)
time.sleep(float(sys.argv[3]))
"""

ALL = {**MEMORY, **DISK}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ALL)
def test_without_the_sandbox_the_way_is_open(attack, tmp_path):
    with (tmp_path / "in").open("w+b") as stdin, (tmp_path / "out").open("w+b") as stdout:
        command = [*PYTHON, PROGRAM, str(FREE_BYTES), ALL[attack], "0"]
        folder = tmp_path / "folder"
        folder.mkdir()
        done = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, cwd=folder, check=False)
        stdout.seek(0)
        held = stdout.read()
    subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False)
    assert (done.returncode, held, done.stderr) == (0, b"held\n", b"")


def assert_held_off(outcome, *endings):
    """Assert that the kernel refused it, or that the program was ended."""
    refused = outcome.ending is Ending.EXIT and outcome.returncode != 0 and b"held" not in outcome.stdout
    assert refused or outcome.ending in endings, outcome


@pytest.mark.slow
@pytest.mark.parametrize("attack", MEMORY)
def test_more_memory_than_the_limit_is_not_held(attack, sandbox):
    outcome = sandbox.run([*PYTHON, PROGRAM, str(ATTACKED_BYTES), MEMORY[attack], "600"], limits=LIMITS)
    assert_held_off(outcome, Ending.MEMORY, Ending.FOLDER, Ending.OUTPUT)


@pytest.mark.slow
@pytest.mark.parametrize("attack", DISK)
def test_more_is_not_written_than_the_limit(attack, sandbox):
    outcome = sandbox.run([*PYTHON, PROGRAM, str(ATTACKED_BYTES), DISK[attack], "600"], limits=LIMITS)
    assert_held_off(outcome, Ending.FOLDER)
    assert sandbox.run(["true"]).succeeded


WRITTEN = """
import os
print(os.statvfs(".").f_blocks * os.statvfs(".").f_frsize, flush=True)  # it is ended as soon as the folder is full
try:
    for number in range(300):
        with open(str(number), "wb") as file:
            file.write(bytes(1 << 20))
except OSError:
    pass
"""


def test_in_namespaces_the_folder_is_as_large_as_its_limit():
    with Sandbox(Wall.NAMESPACES) as opened:
        if reason := weakness(opened):
            pytest.skip(reason)
        outcome = opened.run([*PYTHON, WRITTEN], limits=SandboxLimits(folder_bytes=32 * MIB))
        assert int(outcome.stdout) == 32 * MIB + 4096
        assert outcome.ending is Ending.FOLDER
        with opened.folder({}) as folder:  # each program's own limit holds, whichever was there before
            assert folder.run([*PYTHON, WRITTEN], limits=SandboxLimits(folder_bytes=8 * MIB)).ending is Ending.FOLDER
            assert folder.run(["true"], limits=SandboxLimits(folder_bytes=16 * MIB)).succeeded
            assert folder.run(["true"], limits=SandboxLimits(folder_bytes=4 * MIB)).ending is Ending.FOLDER


TREES = {
    "folders 1,000 deep": "for _ in range(1000): os.mkdir('d'); os.chdir('d')",
    "a path longer than any call takes": "for _ in range(40): os.mkdir('n' * 255); os.chdir('n' * 255)",
    "folders without rights": "os.makedirs('a/b'); open('a/b/f', 'w'); os.chmod('a/b', 0); os.chmod('a', 0)",
    "folders made without rights": "os.mkdir('a', 0); os.mkdir('b', 0o300); os.mkdir('c', 0o500)",
    "its own folder without rights": "open('f', 'w'); os.chmod('.', 0)",
    "pipes, links and names that are not text": """
os.mkfifo('pipe')
os.symlink('/', 'root')
os.symlink('round', 'round')
open(b'\\xff\\n', 'w')
""",
    "hundreds of files": "for number in range(200): open(str(number), 'w').close()",
}


@pytest.mark.parametrize("tree", TREES)
def test_whatever_a_program_leaves_is_removed(tree, any_sandbox, caplog):
    program = f"import os\ntry:\n    exec({TREES[tree]!r})\nexcept PermissionError: pass"
    with any_sandbox.folder({}) as folder:
        folder.run([*PYTHON, program])
        folder.run(["true"])
        home = folder._path.parent
        assert len(os.listdir(home)) == 2
    assert os.listdir(home) == ["root"]
    assert caplog.messages == []
