"""Installations of LSF in a folder: those that lsf101 and lsf91 hold flat, laid out as LSF has them."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def lay_out(name: str, folder: Path, cluster: str) -> Path:
    """LSF_ENVDIR of a copy of lsf101 or lsf91 in `folder`."""
    batch = folder / "lsbatch" / cluster / "configdir"
    batch.mkdir(parents=True)
    for path in (HERE / name).iterdir():
        in_batch = path.name.startswith("lsb.") or path.name == "common.queue"
        (batch if in_batch else folder).joinpath(path.name).write_bytes(path.read_bytes())
    return folder
