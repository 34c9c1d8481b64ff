"""The frame of JSON answers, and values in the form of Slurm's data_parser v0.0.40 (Slurm 23.11).

Source: slurm.schedmd.com, "REST API", components `openapi_meta`, `uint32_no_val`.
"""

from __future__ import annotations

import json
import signal as signals
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gsched import __version__

JsonRecord = Mapping[str, Any]


def number(value: float | None, *, is_infinite: bool = False) -> dict[str, Any]:
    """A number that may not be set, or be without end."""
    return {"set": value is not None, "infinite": is_infinite, "number": int(value or 0)}


def exit_status(code: int, signal: int) -> dict[str, Any]:
    """How something ended."""
    name = _signal_name(signal)
    status = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return {
        "status": [status],
        "return_code": number(code),
        "signal": {"id": number(signal or None), "name": name},
    }


def _signal_name(signal: int) -> str:
    try:
        return signals.Signals(signal).name.removeprefix("SIG") if signal else ""
    except ValueError:
        return str(signal)


def json_answer(name: str, records: Iterable[JsonRecord], cluster: str, plugin: str) -> Iterator[str]:
    """`{"jobs": [...], "meta": ..., "errors": [], "warnings": []}`, piece by piece.

    In ASCII: nothing in it moves a terminal.
    """
    yield f'{{\n"{name}": [\n'
    first = True
    for record in records:
        yield ("" if first else ",\n") + json.dumps(record)
        first = False
    meta = {
        "plugin": {"type": plugin, "name": "gsched", "data_parser": "data_parser/v0.0.40", "accounting_storage": ""},
        "slurm": {
            "version": {"major": "23", "micro": "0", "minor": "11"},
            "release": f"gsched {__version__}",
            "cluster": cluster,
        },
    }
    yield f'\n],\n"meta": {json.dumps(meta)},\n"errors": [],\n"warnings": []\n}}\n'
