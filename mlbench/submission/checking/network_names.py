"""What LoadGen's logs say of a system that is reached over a network: its name, which only such a system has.

Source: MLPerf Inference v4.1 rules, network division; submission checker v4.1, ``check_performance_dir``, which also
reads the logs of compliance tests.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.loadgen.logs import DetailLog
from mlbench.submission.system_fields import is_network_system

_SUT_NAME = "Network SUT"


def explain_name(description: Mapping[str, object], detail: DetailLog) -> str:
    """Return what is wrong with the name of the system in a log, or nothing.

    Args:
        description: of the system.
        detail: the log of any of its tests.
    """
    found = detail.values.get("sut_name")
    if not is_network_system(description) or _SUT_NAME in str(found):
        return ""
    return f"LoadGen's sut_name must contain {_SUT_NAME!r}, and is {found!r}."
