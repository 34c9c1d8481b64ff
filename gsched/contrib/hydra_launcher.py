"""A launcher of hydra whose jobs are jobs of gsched: call `register()` before `@hydra.main` runs, then
`train.py --multirun hydra/launcher=gsched +hydra.launcher.gpus=1 rate=0.1,0.2`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, configure_log, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from omegaconf import open_dict

from gsched.api.executor import Executor

_HOME = "hydra_plugins.gsched_launcher"
"""Hydra takes plugins of the package hydra_plugins alone, by the names of their modules."""


class GschedLauncher(Launcher):
    """Runs each combination as a job; the options are those of `Cluster.submit`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._context: Any = None
        self._function: Any = None
        self._config: Any = None

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        """Called by hydra with what is to be run."""
        self._context, self._function, self._config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run them all; returns how each ended, in order. Raises JobFailed where a job was ended."""
        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        Path(str(self._config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        state = Singleton.get_state()
        with Executor(**self._options) as executor:
            futures = [
                executor.submit(
                    _run, self._context, self._function, self._config, list(overrides), initial_job_idx + place, state
                )
                for place, overrides in enumerate(job_overrides)
            ]
            return [future.result() for future in futures]


def _run(context: Any, function: Any, config: Any, overrides: list[str], number: int, state: Any) -> JobReturn:
    """In the job: what hydra's own launcher does for each combination."""
    Singleton.set_state(state)
    setup_globals()
    chosen = context.config_loader.load_sweep_config(config, overrides)
    with open_dict(chosen):
        chosen.hydra.job.id = chosen.hydra.job.num = number
    return run_job(
        hydra_context=context,
        task_function=function,
        config=chosen,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )


def register() -> None:
    """Make the launcher known to hydra by the name gsched."""
    package, _, name = _HOME.partition(".")
    try:
        plugins = import_module(package)
    except ImportError:  # no other plugin is installed
        plugins = sys.modules[package] = ModuleType(package)
        plugins.__path__ = []
    own = sys.modules[_HOME] = sys.modules[__name__]
    setattr(plugins, name, own)
    home, GschedLauncher.__module__ = GschedLauncher.__module__, _HOME
    Plugins.instance().register(GschedLauncher)
    GschedLauncher.__module__ = home  # by which jobs import it
    node = {"_target_": f"{_HOME}.{GschedLauncher.__name__}", "_convert_": "all"}
    ConfigStore.instance().store(group="hydra/launcher", name="gsched", node=node, provider="gsched")
