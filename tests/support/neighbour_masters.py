"""Configurations of several masters on one machine: hosts by name, each with folders of its own, one store for all."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from gsched.app.installation.authority import make_authority, make_host
from gsched.config.template import NewConfiguration, private_texts
from gsched.model.config import Locations

FOLDERS = ("conf", "state", "log", "server", "run", "spool")


def configure_masters(folder: Path, hosts: Sequence[str], store: str) -> list[Path]:
    """The configuration folders of these masters, `folder`/HOST/conf; `store`: the address of a database."""
    tls = folder / "tls"
    authority = make_authority(str(tls), "lab", 10)
    for host in hosts:
        make_host(str(tls), authority, host, 10)
    return [_configured(folder / host, hosts, store, tls) for host in hosts]


def _configured(folder: Path, hosts: Sequence[str], store: str, tls: Path) -> Path:
    for name in FOLDERS:
        (folder / name).mkdir(mode=0o700, parents=True)
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    new = NewConfiguration(
        cluster="lab",
        hosts=hosts,
        slots=64,
        folders=Locations(**{f"{name}_dir": str(folder / name) for name in FOLDERS}),
        gpu_provider="none",
        port=port,
    )
    texts = private_texts(new)
    texts["lsf.conf"] = texts["lsf.conf"].replace(f"LSF_MASTER_LIST={hosts[0]}", f'LSF_MASTER_LIST="{" ".join(hosts)}"')
    texts["lsf.conf"] += f'GSCHED_STORE="{store}"\nGSCHED_TLSDIR="{tls}"\nLSF_ROOT_USER=Y\n'
    for name, text in texts.items():
        (folder / "conf" / name).write_text(text)
    return folder / "conf"
