"""The configuration of a simulation: that of a folder, or of a new private cluster, with other hosts and values.

The files are read by gsched.config as a master reads them; nothing is written. Hosts of the folder that the simulation
does not have are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest, ConfigError
from gsched.config.changed_files import Setting, with_setting
from gsched.config.config_folder import files_of
from gsched.config.configuration import Loaded, check_texts, load
from gsched.config.grammar.sections import MAX_FILE_BYTES
from gsched.config.template import NewConfiguration, private_texts
from gsched.model.config import ClusterConfig, Locations
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.resource import GPU_COUNTERS, Resource, ResourceType
from gsched.sim.cluster_file import SimulatedHost
from gsched.sim.text_table import read_text
from gsched.sim.workload import GPU_MODEL

_NOWHERE = "/nonexistent/conf"
_NO_PARAMETERS = "Begin Parameters\nEnd Parameters\n"
_FOLDERS = Locations(
    conf_dir=_NOWHERE,
    state_dir="/nonexistent/state",
    log_dir="/nonexistent/log",
    server_dir="/nonexistent/etc",
    run_dir="/nonexistent/run",
    spool_dir="/nonexistent/spool",
)


def simulation_config(
    folder: str | None, hosts: Sequence[SimulatedHost], settings: Sequence[Setting] = ()
) -> ClusterConfig:
    """The configuration with these hosts. `folder`: configuration folder; None: as `gsched up` writes it.

    Raises ConfigError for files that a master would refuse, BadRequest for a setting that makes them so.
    """
    if folder is not None:
        _look_into(folder)
    loaded = _loaded(folder, _changed(folder, settings), settings)
    return with_hosts(loaded.required(), hosts)


def with_hosts(config: ClusterConfig, hosts: Sequence[SimulatedHost]) -> ClusterConfig:
    """The configuration with just these hosts; one that it knows keeps what lsb.hosts and lsf.cluster say of it."""
    counters = {name: Resource(name=name, interval_s=5, consumable=name != "ngpuprohibited") for name in GPU_COUNTERS}
    model = Resource(name=GPU_MODEL, type=ResourceType.STRING)
    names = tuple(host.name for host in hosts)
    mapped = {name: at for name, at in config.mapped.items() if name not in counters}
    return msgspec.structs.replace(
        config,
        master_host=names[0],
        hosts={host.name: _host(config.hosts.get(host.name), host) for host in hosts},
        resources={**counters, **config.resources, GPU_MODEL: model},
        mapped={**mapped, **dict.fromkeys(counters, names)},
    )


def _host(known: HostConfig | None, host: SimulatedHost) -> HostConfig:
    values: dict[str, float | str] = {GPU_MODEL: host.gpu_model} if host.gpu_model else {}
    if known is None:
        return HostConfig(name=host.name, max_slots=host.slots, values=values)
    return msgspec.structs.replace(known, max_slots=host.slots, values={**known.values, **values})


def _changed(folder: str | None, settings: Sequence[Setting]) -> dict[str, str]:
    """Texts that are not as they stand in the folder; all of them where there is none."""
    texts: dict[str, str] = {}
    if folder is None:
        new = NewConfiguration(cluster="sim", hosts=("h001",), slots=None, folders=_FOLDERS, gpu_provider="none")
        texts.update(private_texts(new))
    for setting in settings:
        if setting.file not in texts:
            texts[setting.file] = _text(folder, setting.file)
        texts[setting.file] = with_setting(texts[setting.file], setting)
    return texts


def _look_into(folder: str) -> list[str]:
    try:
        return files_of(folder)
    except OSError as error:
        raise BadRequest(f"{folder}: cannot be read: {error.strerror}") from None


def _text(folder: str | None, name: str) -> str:
    if folder is not None and name in _look_into(folder):
        return read_text(f"{folder}/{name}")
    return _NO_PARAMETERS if name == "lsb.params" else ""


def _loaded(folder: str | None, texts: Mapping[str, str], settings: Sequence[Setting]) -> Loaded:
    if any(len(text) > MAX_FILE_BYTES for text in texts.values()):
        raise BadRequest(f"a configuration file is larger than {MAX_FILE_BYTES >> 20} MiB")
    if folder is None:
        loaded = check_texts(_NOWHERE, texts)
    else:
        loaded = load(folder, instead={name: text.encode() for name, text in texts.items()})
    if loaded.config is None and settings and _stands_alone(folder):
        first = next(problem for problem in loaded.problems if problem.severity == "error")
        words = " ".join(setting.words for setting in settings)
        raise BadRequest(f"{words}: {first.path.rsplit('/', 1)[-1]}: {first.text}")
    if loaded.config is None:
        raise ConfigError(loaded.problems)
    return loaded


def _stands_alone(folder: str | None) -> bool:
    """Whether the files are right without what is to be changed."""
    return folder is None or load(folder).config is not None
