"""All that one does with this repository. ``nox -l`` lists it; CI runs only these."""

import json
import os
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "venv"


def install(session: nox.Session, *extras: str) -> None:
    """Install this checkout with some of its extras; with ``nox --no-venv`` it is as the caller installed it."""
    if session.venv_backend == "none":
        return
    session.install("-e", f".[{','.join(extras)}]" if extras else ".")


@nox.session
def demo(session: nox.Session) -> None:
    """Set up, and run the mini suite: every workload that exists, on every backend that runs here."""
    install(session, "cpu")
    session.run("mlbench", "doctor")
    session.run("mlbench", "run", "--backend", "pytorch", "--backend", "onnxruntime", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Set up, and run all tests, linters and the type checker."""
    install(session, "dev")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    two = ("-n", "2", "--dist", "worksteal")  # one whose threads spin while they wait keeps the other from working
    session.run("pytest", *two, "--durations=10", *session.posargs, env={"OMP_WAIT_POLICY": "PASSIVE"})


@nox.session
def unit(session: nox.Session) -> None:
    """Run the quick tests: no real runs, no trained models."""
    install(session, "dev")
    session.run("pytest", "-m", "not slow and not gpu and not data", *session.posargs)


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
    """Install the example of a stranger's backend from outside, check it, and run all workloads on it."""
    install(session, "cpu")
    session.install("./examples/mlbench_openvino")
    session.run("mlbench", "check", "openvino")
    session.run("mlbench", "run", "--backend", "openvino", "--results", session.create_tmp(), *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """Run what needs a GPU, for the backends named (``nox -s gpu -- tensorrt``): tests, kit, workloads and accuracy."""
    backends = session.posargs or ["pytorch"]
    install(session, "dev", *(["tensorrt"] if "tensorrt" in backends else []))
    session.run("pytest", "-m", "gpu")
    listed = json.loads(session.run("mlbench", "list", "--json", silent=True))["backends"]
    precisions = {backend["name"]: backend["precisions"] for backend in listed}
    failed = []
    for backend in backends:
        device = ["--set", "backend.device=cuda"] if backend == "pytorch" else []
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
def build(session: nox.Session) -> None:
    """Build the distribution, and check that a wheel alone runs."""
    session.install("build>=1.2")
    dist = Path(session.create_tmp()) / "dist"
    session.run("python", "-m", "build", "--outdir", os.fspath(dist))
    (wheel,) = dist.glob("*.whl")
    session.install(os.fspath(wheel))
    session.run("mlbench", "list")
