"""``mlbench serve``: run a node of the network division."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.completions import offer_workloads
from mlbench.cli.options import Word, backend_option, overrides_option, profile_option, token_option, weights_option
from mlbench.cli.output import echo_line
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import UnavailableError, UsageError
from mlbench.execution.preload import modules_to_preload
from mlbench.version import __version__

if TYPE_CHECKING:
    from mlbench.cluster.addresses import Address
    from mlbench.records.node_record import NodeRecord
    from mlbench.settings.layers import Settings

_BUILDER = "mlbench.measurement.running_engine:part_of_run"
_NAME_CHARACTERS = 8


@click.command("serve")
@click.argument("workload", shell_complete=offer_workloads)
@backend_option
@profile_option
@weights_option
@click.option(
    "--listen",
    type=Word(),
    default="127.0.0.1",
    show_default=True,
    metavar="HOST[:PORT]",
    help="Address to listen on; 0.0.0.0: every address of this machine.",
)
@click.option(
    "--name", type=Word(), metavar="NAME", help="Name of the node, unique in a run.  [default: a generated one]"
)
@token_option
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Use TLS with this certificate.  [default: no TLS]",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Private key of the certificate.  [default: in the same file]",
)
@click.option(
    "--most-open",
    type=click.IntRange(1),
    default=65536,
    show_default=True,
    metavar="N",
    help="Most unanswered samples; a client that sends more is refused.",
)
@overrides_option
@click.option(
    "--trust",
    "trusts",
    is_flag=True,
    help="Let clients change settings that run code, name a file or a secret, or open an address.",
)
def command(
    workload: str,
    backend: str | None,
    profile: str,
    weights: str,
    listen: str,
    name: str | None,
    token_file: Path,
    certificate: Path | None,
    key: Path | None,
    most_open: int,
    overrides: dict[str, str],
    trusts: bool,
) -> None:
    """Answer samples of WORKLOAD for clients that name this node with --network, one run after another.

    Each run has its own engine and process. The client sets precision, scenario and settings; options given here
    override them, and settings of the workload are always this machine's. A client may change a setting that runs code,
    names a file or a secret, or opens an address only with --trust. The token file is written if there is none: copy it
    to the client.
    """
    from mlbench.cluster.addresses import Address, make_token, read_token
    from mlbench.cluster.node import Listening, serve_node
    from mlbench.cluster.session import NodeConfig
    from mlbench.settings.layers import CORE_TEMPLATES, guards_of

    address, plugins = Address.parse(listen), Plugins.discover()
    chosen = plugins.backend(backend).name if backend else plugins.best_backend().name
    served = {"workload": plugins.workload(workload).name, "backend": chosen, "profile": profile, "weights": weights}
    if key and not certificate:
        raise UsageError("--key is given without --certificate.", hint="Name its certificate with --certificate.")
    plain = _settings_of(served, overrides, plugins).plain()
    own = {key: plain[key] for key in overrides}
    facts = _facts_of(served, name or _made_name(address), own, plugins)
    if make_token(token_file):
        echo_line(f"wrote {token_file}: copy it to the client.", to_stderr=True)

    def on_ready(found: Address) -> None:
        echo_line(f"{facts.name} serves {workload} on {chosen} at {found}.")

    settings = {key: value for key, value in plain.items() if key.startswith("workload.")} | own
    templates = [*CORE_TEMPLATES.items(), ("backend", plugins.backend(chosen).options)]
    guards = [] if trusts else list(guards_of(templates, plain))
    config = NodeConfig(facts=facts, builder=_BUILDER, settings=settings, most_open=most_open, guards=guards)
    listening = Listening(
        address=address,
        token=read_token(token_file.expanduser()),
        certificate=certificate,
        key=key,
        preload=(_BUILDER.partition(":")[0], *modules_to_preload(plugins.workload(workload), plugins.backend(chosen))),
    )
    serve_node(config, listening, on_ready)


def _settings_of(served: dict[str, str], overrides: dict[str, str], plugins: Plugins) -> Settings:
    """Return the settings that a run would have here."""
    from mlbench.planning.requests import RunRequest, resolve

    probe = plugins.probe(served["backend"])
    if not probe.is_available:
        raise UnavailableError(f"backend {served['backend']} cannot run here: {probe.reason}.", hint=probe.install)
    scenario = next(each for each in plugins.scenarios.values() if not each.waits_for_answers)
    request = RunRequest(
        workload=served["workload"],
        backend=served["backend"],
        scenario=scenario.name,
        profile=Profile(served["profile"]),
        weights=Weights(served["weights"]),
        overrides=overrides,
    )
    settings = resolve(request, plugins).settings
    if devices := settings.plain()["execution.devices"]:
        raise UsageError(
            f"execution.devices is {devices}, which is for instances, but a node has one engine.",
            hint="Set CUDA_VISIBLE_DEVICES where the node is started.",
        )
    if "execution.instances" in overrides:
        raise UsageError(
            f"execution.instances is {overrides['execution.instances']}, but a node has one engine.",
            hint="Start a node for each device, each with its own port and name.",
        )
    return settings


def _facts_of(served: dict[str, str], name: str, own: dict[str, Any], plugins: Plugins) -> NodeRecord:
    from pydantic import ValidationError

    from mlbench.records.environment import observe_environment
    from mlbench.records.node_record import NodeRecord
    from mlbench.system.documents import first_problem

    probe = plugins.probe(served["backend"])
    try:
        return NodeRecord(
            name=name,
            mlbench_version=__version__,
            precisions=[str(each) for each in probe.precisions],
            versions=dict(probe.versions),
            settings=own,
            environment=observe_environment(),
            **served,
        )
    except ValidationError as error:
        raise UsageError(f"{first_problem(error, whole='the node')}.", hint="Choose another --name.") from None


def _made_name(address: Address) -> str:
    """Return a name that is stable for a fixed port and does not reveal the host's name."""
    port = str(address.port or os.getpid())
    return f"node-{hashlib.sha256(f'{socket.gethostname()} {port}'.encode()).hexdigest()[:_NAME_CHARACTERS]}"
