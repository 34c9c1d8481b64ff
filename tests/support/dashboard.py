"""The dashboard of examples/ as Grafana reads it: which queries it sends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "examples" / "grafana-dashboard.json"


def dashboard() -> dict[str, Any]:
    """The file as a whole."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def queries() -> dict[str, str]:
    """`TITLE A` -> the query of each panel, as it is sent where everything is chosen and a minute is looked at."""
    found = {}
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            text = target["expr"].replace("$__rate_interval", "1m")
            found[f"{panel['title']} {target['refId']}"] = re.sub(r"\$(queue|host)\b", ".*", text)
    return found
