"""Notes of jobs, warnings to who submits, and why jobs are requeued or suspended."""

from __future__ import annotations

JOB_TEXTS: dict[str, str] = {
    # Notes of jobs.
    "note.gpu_not_clean": "GPU {0} ({1}) of {2} is not clean after run {3}: {4}; no job gets it until it is",
    "note.foreign_process": "A foreign process is on GPU {0} ({1}) of {2}, which run {3} holds: process {4} of {5}",
    "note.escaped_process": (
        "ESCAPED: of run {0} process {1} of user {2} uses GPU {3} ({4}) on {5}, which is not its own"
    ),
    "note.mode_changed": (
        "Somebody has changed the compute mode of GPU {0} ({1}) on {2} from {3} to {4} while run {5} uses it"
    ),
    "note.xid": "Run {0} had {1} of GPU {2} ({3}) on {4}",
    "note.gpu_failed": "Run {0} lost a GPU: {1}",
    "note.gmem_exceeded": "Run {0} uses more memory of GPU {1} ({2}) on {3} than its gmem={4:g}M",
    "note.mps_ended": (
        "Run {0}: the MPS control daemon on GPU {1} ({2}) of {3} has ended by itself; programs that used it have failed"
    ),
    "note.gpu_split": "Run {0}: GPU {1} ({2}) on {3} was split by MIG while the job held all of it",
    "note.mig_device_gone": "Run {0}: its part {1} ({2}) of GPU {3} ({4}) on {5} is gone: the MIG layout was changed",
    "note.unkillable": (
        "UNKILLABLE pid {0} ({1}) of run {2} of job {3} of user {4} on {5}: SIGKILL does not end it, "
        "so the job keeps its slots and GPUs there until it is gone"
    ),
    "note.on_host": "Run {0} on host {1}: {2}",
    "note.lost_part": "Run {0} lost its part on host {1}: {2}",
    "note.unrecorded_run": (
        "Run {0} of an earlier generation of the store, which is not recorded, is on host {1} as well"
    ),
    "note.held_back": "Run {0} of the job is on host {1}, but is not recorded: it is not started again by itself",
    "suspend.by_user_because": "The job was suspended by user: {0}",
    "note.termination_reason": "Job termination reason: {0}",
    "note.no_application": "The application profile {0} no longer exists: its commands are not run",
    "note.no_gpu_asked": (
        'No GPU was requested, so the job sees none; to get one: -R "select[ngpus>0] rusage[ngpus_excl_p=1]" '
        "(ngpus_shared for a shared one)"
    ),
    "output.removed_for_user": (
        "The output of run {0} ({2}) was removed on host {1}: its user's jobs without -o had more than {3} MiB of "
        "output there (GSCHED_KEPT_OUTPUT_USER_MIB)"
    ),
    "output.removed_for_host": (
        "The output of run {0} ({2}) was removed on host {1}: jobs without -o had more than {3} MiB of output "
        "there (GSCHED_KEPT_OUTPUT_HOST_MIB)"
    ),
    "resize.released": "Slots released : {0}",
    "resize.requested": "More slots requested : {0}",
    "resize.cancelled": "No more slots requested",
    "resize.added": "Slots added : {0}",
    "note.waits_for_save": "Job {0}, which makes room for it, has {1} s to save its state",
    "note.waits_for_lent": "Job {0}, which gives {1} lent GPU(s) back to it, has {2} s to save its state",
    "note.most_restarts": "It ends, though {0}: it has been restarted {1} times, the most that it may (--max-restarts)",
    "note.most_requeues": "It exited with {0} and is not requeued again: MAX_JOB_REQUEUE allows {1}",
    "note.most_retries": "It failed ({0}) and does not run again: RETRY allows {1}",
    "note.notice_not_sent": "The notice of the {0} was not sent by {1}: {2}",
    "user.somebody": "somebody",
    "user.with_memory": "{0} ({1} MiB)",
    "start.failed": "the job could not be started",
    "start.failed_on": "host {0}: {1}",
    "start.pre_exec_failed": "{2}",
    "start.given_up": "{0}; {1} failed starts are the most (MAX_PREEXEC_RETRY), so it is suspended",
    # Idle GPUs of a job (GPU_IDLE).
    "idle.warned": "All {1} GPU(s) of job {0} have done no work for {2}, {3} ({4}): GPU_IDLE of queue {5}",
    "idle.kind.no_process": "without a process of the job",
    "idle.kind.held": "with memory held and no work yet",
    "idle.kind.stopped": "after they had worked",
    "idle.kind.faked": "with use that is none",
    "idle.gpu.no_process": "GPU {0} of {1}: no process of the job",
    "idle.gpu.held": "GPU {0} of {1}: use at most {2} %, memory traffic at most {3} %, {4} MiB held, no work yet",
    "idle.gpu.stopped": "GPU {0} of {1}: use at most {2} %, memory traffic at most {3} %, {4} MiB held, it has worked",
    "idle.gpu.faked": (
        "GPU {0} of {1}: use of {2} % and more with memory traffic of at most {3} % and at most {4} W, "
        "as of a program that only keeps it busy, or hangs in NCCL"
    ),
    "idle.more_gpus": "{0} more",
    "idle.follows.notify": "Nothing more is done about it",
    "idle.follows.requeue": "If they stay idle for {0} more, the job is ended and waits again",
    "idle.follows.kill": "If they stay idle for {0} more, the job is killed",
    "idle.advice.ask": "If that is meant: gmod --gpu-idle-ok REASON {0}",
    "idle.acted.requeue": (
        "It is requeued: its GPUs have done no work for {0}, {1}, {2} of it after the warning (GPU_IDLE of queue {3})"
    ),
    "idle.acted.kill": (
        "It is killed: its GPUs have done no work for {0}, {1}, {2} of it after the warning (GPU_IDLE of queue {3})"
    ),
    "idle.kept.not_rerunnable": "Its GPUs are still idle, and it is not requeued, for it is not rerunnable (-r)",
    "idle.kept.most_requeues": "Its GPUs are still idle, and it is not requeued again: MAX_JOB_REQUEUE allows {0}",
    "idle.over.works": "Its GPUs work again: the warning of idle GPUs is taken back",
    "idle.over.anew": "The warning of idle GPUs is taken back: their idle time counts anew",
    "idle.over.exempt": "The warning of idle GPUs is taken back: the job is exempt",
    "idle.over.no_rule": "The warning of idle GPUs is taken back: its queue has no GPU_IDLE",
    # Services of jobs.
    "service.idle": "It is ended: nobody has used its service for {0} min (SERVICE_IDLE of queue {1})",
    "service.answers": "Its service answers on port {0} of host {1}",
    # Why an attempt was given up and the job waits again.
    "requeue.asked": "Job has been requeued",
    "requeue.drained": "host {0} is drained by {1}",
    "requeue.idle": "its GPUs did no work for {0} (GPU_IDLE)",
    "requeue.preempted": "preempted by job {0}",
    "requeue.shrinks": "it goes on with {1} of its {0} GPUs: job {2} needs lent ones",
    "requeue.grows": "it goes on with {1} GPUs instead of {0}: so many are idle",
    "requeue.grows_less": "it goes on with {1} GPUs and has {0}: job {2} needs others that it was to get",
    "requeue.asked_to_save": "it was asked to save its state for another job, which needs its place no more",
    "requeue.stopped": "it was stopped when it was to go on with other GPUs: it holds none until it is resumed",
    "requeue.asked_to_give_back": "it was asked to save its state to give lent GPUs back, which no job needs any more",
    "requeue.failure": "it failed ({0}) and runs again, {1} of {2} times (RETRY)",
    "requeue.exit_code": "it exited with {0}, which requeues it",
    "requeue.saved": "{0}: restart {1} of at most {2}",
    "restart.asked": "it asked to be run again (gsched requeue-me)",
    "restart.timelimit": "it has reached its run limit (--restart-on timelimit)",
    "restart.exit_code": "it has saved its state (exit code {0})",
    "requeue.rerunnable": "it is rerunnable, and {0}",
    "requeue.lost_part": "it is rerunnable, and {0} lost its part: {1}",
    # Why a job is suspended by the system.
    "terminated.instead_of_suspended": "It is ended instead of suspended (TERMINATE_WHEN): {0}",
    "suspend.window_closed": "The run windows of the queue are closed",
    "suspend.load": "Host load exceeded threshold: {0} ({1})",
    "suspend.stop_cond": "STOP_COND is true with current host load",
    "suspend.preempted": "The job was preempted because of a higher priority job <{0}>",
    "suspend.not_rerunnable": (
        "The job was preempted because of a higher priority job <{0}>; not requeued: it is not rerunnable"
    ),
    "suspend.not_requeued": (
        "The job was preempted because of a higher priority job <{0}>; not requeued: rerunnable jobs hold too little"
    ),
    # Warnings to who submits or changes a job, and what a change of the configuration does to it.
    "warning.requirement_ignored": "the {0}'s resource requirement does not count beside this one",
    "warning.gpu_duration": "the duration of {0} in rusage[...] does not count: a GPU is held until the job ends",
    "warning.requirement_kept": (
        "the requirement of before the reconfiguration holds; with what queue {0} says now: {1}"
    ),
    "warning.waits_for_host": "{0}: the job waits until one has",
    "warning.no_mail_program": "no mail will be sent: lsf.conf has neither LSB_MAILPROG nor LSB_MAILSERVER",
    "warning.no_mail_time": "no mail will be sent: nothing says when (gsub -N, sbatch --mail-type, qsub -m)",
    "warning.no_gpu_idle": "queue {0} has no GPU_IDLE: --gpu-idle-ok has no effect there",
    "warning.early_signal": (
        "signal {0} comes as soon as the job starts: it is to come {2} seconds before a run limit of {1} seconds"
    ),
    "warning.no_notices": "no notices by {0}: GSCHED_NOTIFY of lsf.conf does not allow them",
    "warning.not_scaled": "times are not scaled by the speed of hosts; {0} counts on every host",
    "warning.rounded_up": "rounded up to whole minutes: {0}",
    "warning.no_run_limit": "the job has no run limit of its own; the queue's counts",
    "warning.no_effect": "-{0} has no effect: {1}",
    "warning.option": "-{0} {1}: {2}",
    "warning.notices_not_again": (
        "the notices of job {0} are not taken over, since nobody reads again where they go: --notify asks for them"
    ),
    "warning.not_copied": (
        "{0} was given arguments, so it is not copied: what its file holds when the job starts is run"
    ),
    "warning.line_ends": "Line {0} of the script ends with CR LF (Windows): it is run with the line ends of Unix",
    "change.requirement": "Combined resource requirements changes to : {0}",
    "change.gpu_requirement": "Combined GPU requirement changes to : {0}",
    "change.nothing": "(nothing)",
    "lacking.units": "No host that the job may use has the processor units of {0} ({1})",
    "lacking.units_beside_gpus": "No host that the job may use has the processor units of {0} beside such GPUs ({1})",
    "warning.sudo": (
        "sudo does not pass on CUDA_VISIBLE_DEVICES, so the program sees every GPU of the host; "
        "write sudo --preserve-env=CUDA_VISIBLE_DEVICES (or sudo -E)"
    ),
    "warning.background": (
        "the command ends in &, so the job is over when its shell is; what it leaves running is ended with it "
        "(SIGTERM, SIGKILL 2 seconds later). Leave the & out, or end with wait"
    ),
    "warning.no_priorities": "{0}: taken, and does nothing: this cluster has no priorities of jobs (MAX_USER_PRIORITY)",
    "warning.not_expanded": (
        "{0} is not expanded on the execution host: only in a command that is one word are variables"
    ),
}
