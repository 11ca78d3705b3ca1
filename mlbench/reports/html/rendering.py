"""Renders pages from templates, each self-contained: with its style, and an optional script."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import Any

from mlbench.errors import UsageError
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.plain_text import terminal_text

INSTALL = "Install it: pip install 'mlbench-inference[report]'."


def check_installed(what: str) -> None:
    """Raise `UsageError` if a library that ``what`` needs is missing; ``what`` is such as ``a report``."""
    try:
        import altair  # noqa: F401
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise UsageError(f"{what} needs {error.name}, which is not installed.", hint=INSTALL) from None


def render(template: str, **values: object) -> str:
    """Return a page of its values by name; all text in it is escaped, except where the template marks it safe."""
    script = _resource("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = _resource("report.css")
    page = _environment().get_template(template)
    return str(page.render(disclaimer=DISCLAIMER, style=style, script=script, script_hash=digest, **values))


def stand_alone(svg: str) -> str:
    """Return a drawing of a page as a separate file, in the page's light colours and background."""
    style = _resource("report.css")
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", style.partition("@media")[0]))
    found = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], svg)
    return found.replace(">", f'><rect width="100%" height="100%" fill="{colours["paper"]}"/>', 1)


@cache
def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("mlbench.reports.html"),
        autoescape=True,
        finalize=_plain,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: Any) -> Any:
    """Return text without control characters; parts of the page are unchanged."""
    return terminal_text(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _resource(name: str) -> str:
    return resources.files("mlbench.reports.html").joinpath("templates", name).read_text(encoding="utf-8")
