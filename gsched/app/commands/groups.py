"""`gsched`, `gadmin` (badmin) and `lsadmin`: which words they have, and where each lies.

Source of LSF's words: badmin(8), lsadmin(8) of LSF 10.1; `frag`, `explain`, `why-not` and those of stores and fleets
are gsched's own.
"""

from __future__ import annotations

import click

from gsched import __version__
from gsched.app.commands.word_group import AdministrationGroup, WordGroup

_HELP = {"help_option_names": ["-h", "--help"]}
_OF_GSCHED = {
    "up": "private_cluster.up_words:up",
    "down": "private_cluster.down_words:down",
    "status": "private_cluster.status_words:status",
    "sim": "simulation.simulation_words:sim",
    "sim-gpu": "private_cluster.status_words:sim_gpu",
    "web": "interface_words:web",
    "top": "interface_words:top",
    "mcp": "interface_words:mcp",
    "names": "help_words:names",
    "requeue-me": "in_jobs.requeue_me:requeue_me",
    "import-lsf": "lsf_import.import_words:import_lsf",
    "export": "lsf_import.export_words:export",
    "convert": "scripts.script_words:convert",
    "man": "help_words:man",
    "completion": "help_words:completion",
    "master": "daemon_words:master",
    "agent": "daemon_words:agent",
    "door": "daemon_words:door",
}
_OF_GADMIN = {
    "ckconfig": "configuration_words:ckconfig",
    "reconfig": "configuration_words:reconfig",
    "showconf": "configuration_words:showconf",
    "hclose": "host_and_queue_words:hclose",
    "hopen": "host_and_queue_words:hopen",
    "gpuclose": "host_and_queue_words:gpuclose",
    "gpuopen": "host_and_queue_words:gpuopen",
    "qclose": "host_and_queue_words:qclose",
    "qopen": "host_and_queue_words:qopen",
    "qinact": "host_and_queue_words:qinact",
    "qact": "host_and_queue_words:qact",
    "frag": "host_and_queue_words:frag",
    "explain": "explaining.explain_words:explain",
    "diagnose": "explaining.explain_words:explain",
    "why-not": "explaining.explain_words:why_not",
    "estimates": "explaining.explain_words:estimates",
    "hist": "history_words:hist",
    "history": "kept_history.history_group:history",
    "mbdhist": "history_words:mbdhist",
    "qhist": "history_words:qhist",
    "hhist": "history_words:hhist",
    "showstatus": "history_words:showstatus",
    "mbdrestart": "restart_words:mbdrestart",
    "failover": "restart_words:failover",
    "hrestart": "restart_words:hrestart",
    "hshutdown": "restart_words:hshutdown",
    "hstartup": "restart_words:hstartup",
    "install-units": "installing.unit_words:install_units",
    "uninstall-units": "installing.unit_words:uninstall_units",
    "host-files": "installing.unit_words:host_files",
    "versions": "fleet_words:versions",
    "metrics": "fleet_words:metrics",
    "drain": "fleet_words:drain",
    "startup": "restart_words:startup",
    "shutdown": "restart_words:shutdown",
    "backup": "store_words:backup",
    "restore": "store_words:restore",
    "newstore": "store_words:newstore",
    "store-copy": "store_words:store_copy",
    "check-store": "store_words:check_store",
    "orphans": "fleet_words:orphans",
    "init-ca": "certificate_words:init_ca",
    "host-cert": "certificate_words:host_cert",
}
_OF_LSADMIN = {
    "ckconfig": "configuration_words:ckconfig",
    "reconfig": "configuration_words:reconfig_of_lim",
    "showconf": "configuration_words:showconf_of_lim",
    **dict.fromkeys(("limrestart", "resrestart"), "restart_words:hrestart"),
    **dict.fromkeys(("limshutdown", "resshutdown"), "restart_words:hshutdown"),
    **dict.fromkeys(("limstartup", "resstartup"), "restart_words:hstartup"),
    "limlock": "host_and_queue_words:hclose",
    "limunlock": "host_and_queue_words:hopen",
}
UNSUPPORTED = {
    "perfmon": "gadmin metrics shows what the master counts and times",
    "rc": "there is no resource connector",
    "security": "gadmin init-ca and gadmin host-cert make the certificates of a shared cluster",
    "hpower": "hosts are not switched off to save power",
    "lsfproxyd": "each user has a share of the master (GSCHED_MAX_REQUESTS_PER_S)",
    "gpd": "there is one cluster",
    "switcheventfile": "events are kept in a database",
    **dict.fromkeys(
        ("mbddebug", "mbdtime", "sbddebug", "sbdtime", "schddebug", "schdtime"), "daemons log to LSF_LOGDIR"
    ),
    **dict.fromkeys(
        ("limdebug", "limtime", "resdebug", "restime", "reslogon", "reslogoff"), "daemons log to LSF_LOGDIR"
    ),
    **dict.fromkeys(("hghostadd", "hghostdel"), "groups are changed in lsb.hosts, then badmin reconfig"),
}
"""Words of LSF that are refused by name, and what does the same."""


@click.group("gsched", cls=WordGroup, places=_OF_GSCHED, context_settings=_HELP)
@click.version_option(__version__, "-V", "--version", prog_name="gsched")
def gsched() -> None:
    """A GPU-aware batch scheduler. `gsched up` starts a private cluster on this machine; no root needed."""


@click.group("gadmin", cls=AdministrationGroup, places=_OF_GADMIN, unsupported=UNSUPPORTED, context_settings=_HELP)
@click.version_option(__version__, "-V", "--version", prog_name="gadmin")
def gadmin() -> None:
    """Administer a cluster: its configuration, its hosts and queues, and what fragments its GPUs.

    Without a command it takes one from each line: at a prompt on a terminal, else from standard input.
    """


@click.group("lsadmin", cls=AdministrationGroup, places=_OF_LSADMIN, unsupported=UNSUPPORTED, context_settings=_HELP)
@click.version_option(__version__, "-V", "--version", prog_name="lsadmin")
def lsadmin() -> None:
    """What LSF's lsadmin does of the things that gadmin does.

    Without a command it takes one from each line: at a prompt on a terminal, else from standard input.
    """
