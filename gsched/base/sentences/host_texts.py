"""Lines about hosts (ghosts -l), what elims do wrong, and why agents are refused."""

from __future__ import annotations

HOST_TEXTS: dict[str, str] = {
    # Why a job runs on whose host is drained.
    "drain.ending": "it is being ended already",
    "drain.unreachable": "its host does not answer",
    "drain.suspended": "it is suspended",
    "drain.not_rerunnable": "it cannot be run again (-r, --restart-on drain, --signal)",
    "drain.no_restart_left": "it has been restarted as often as it may (--max-restarts)",
    # Lines about a host (ghosts -l).
    "remark.gpu_mode": "GPU_MODE {0} could not be set: {1}",
    "remark.mig_open": "GPU {0}: jobs could use others' parts of it, for the driver does not name their devices",
    "remark.unkillable": "UNKILLABLE pid {0} ({1}) of job {2}",
    "remark.spool_gone": "the spool folder {0} is gone and cannot be made again: {1}; no job can start here",
    "remark.spool_made": "the spool folder {0} was removed and made again: how runs {1} end may not be known",
    "remark.spool_mended": (
        "the spool folder {0} was removed and made again: what runs {1} had printed without -o until then is lost"
    ),
    "remark.no_agent": "no agent of {0} is connected",
    "remark.closed_by": "the host is closed by {0}",
    "remark.only_user": "the agent is not root's: it runs only jobs of user {0}",
    "remark.unrecorded_over": "run {0}, of which the store has no record, is over (gadmin orphans)",
    "remark.unrecorded": "run {0}, of which the store has no record, goes on here and holds {1} (gadmin orphans)",
    "remark.slot": "{0} slot",
    "remark.slots": "{0} slots",
    "remark.with_gpus": "{0}, GPU {1}",
    "remark.gpus_unknown": "GPUs unknown: {0}",
    "remark.gpus_simulated": "the {0:GPUs} of this host are simulated",
    "remark.no_gpus": "no GPUs",
    "remark.no_gpus_why": "no GPUs: {0}",
    "remark.not_fenced": "jobs are told their GPUs, but could use others (no fence: {0})",
    "remark.no_gpu_offered": "no GPU of this host is offered: {0}",
    "remark.gpu_not_offered": "GPU {0} ({1}) is not offered: {2}",
    "remark.mode_set": "GPU {0} is in compute mode {1} for its jobs, and goes back to {2}",
    "remark.modes_not_set": "compute modes are not set for jobs: {0}",
    "remark.mode_changed": "GPU {0} is held as {1} by job {2}, but its mode is now {3}",
    "remark.foreign": "GPU {0} ({1}) is used by processes of no job: {2}",
    "remark.process": "{0} of {1} ({2} MiB)",
    "remark.process_unseen": "{0} of {1} (? MiB)",
    "remark.xids_unheard": "errors (XIDs) are not heard: {0}",
    "remark.elim_disagrees": "an elim reports {0} {1:g}, the devices say {2}; the devices count",
    # What elims do wrong.
    "elim.no_resource": "{0}: {1} is not a resource of this host, ignored",
    "elim.bad_value": "{0}: {1}: {2}, ignored",
    "elim.below_zero": "{0} is less than 0",
    "elim.no_number": "{0} is no number",
    "elim.out_of_range": "{0} is out of range",
    "elim.not_printable": "{0} is not printable",
    "elim.not_looked_at": "{0}: cannot be looked at: {1}",
    "elim.not_run": "{0}: not run as root: {1}",
    "elim.silent": "{0}: has said nothing for more than {1:g} s{2}{3}",
    "elim.silent_since_start": "{0}: has said nothing since it was started for more than {1:g} s{2}{3}",
    "elim.so_unknown": ", so {0} may be unknown",
    "elim.incomplete": "; its last report is incomplete: {0}",
    "elim.failed": "{0}: {1}{2}; {3}",
    "elim.said_last": " ({0})",
    "elim.again_in": "started again in {0:.0f} s",
    "elim.again_now": "started again now",
    "elim.not_again": "not started again before a reconfig (LSF_ELIM_RESTARTS is {0})",
    "elim.no_start": "cannot be started: {0}",
    "elim.signalled": "was ended by signal {0}",
    "elim.ended": "ended with exit code {0}",
    "elim.blocked": "has completed no report for {0:g} s{1} ({2})",
    "elim.only": ", only {0}",
    "elim.no_count": "{0} stands where the number of pairs is wanted",
    "elim.too_many_pairs": "{0} pairs are announced, more than {1}",
    "elim.word_too_long": "a word of more than {0} bytes, beginning {1}",
    # Why an agent is refused (gadmin versions, ghosts -l).
    "agent.other_protocol": (
        "the agent of {0} speaks protocol {1} (gsched {2}), the master protocol {3} (gsched {4}): "
        "install the same version on both"
    ),
    "agent.second": (
        "host {0} already has an agent, connected from {1} since {2}: "
        "two machines, or two agents, use the same host name; stop one of them or give it another name"
    ),
    "agent.second_from": "{0} (the one that is refused asks from {1})",
    "agent.same_machine": "the same machine",
    # Who but root can change a file.
    "owner.other": "{0}: belongs to uid {1}",
    "owner.everybody": "{0}: may be written by everybody (mode {1})",
    "owner.group": "{0}: may be written by group {1} (mode {2})",
}
