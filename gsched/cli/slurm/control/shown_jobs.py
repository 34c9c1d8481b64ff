"""scontrol show job and show step. Source: scontrol(1) of Slurm 22.05, SHOW COMMAND, "job"."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest, NotFound
from gsched.base.ids import index_of
from gsched.base.node_lists import fold_nodes
from gsched.cli.slurm.control.scontrol_call import ScontrolCall, free_text, record
from gsched.cli.slurm.facts.dependency_words import waits_for
from gsched.cli.slurm.facts.job_facts import SlurmJob, folded
from gsched.cli.slurm.facts.job_records import gpu_detail, job_pieces
from gsched.cli.slurm.facts.job_steps import STEP_NAME, SlurmStep, running_steps
from gsched.cli.slurm.facts.slurm_clock import clock_of, long_duration
from gsched.cli.slurm.facts.tres_texts import held_tres, requested_tres, shown_size, step_tres
from gsched.cli.slurm.job_columns import excluded_nodes, standard_error, standard_input, standard_output, tasks_of
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.views.view import JobFilter


def show_jobs(asked: ScontrolCall) -> int:
    """All jobs that are known, or those that are named."""
    jobs = _jobs(asked)
    if asked.options.has("json"):
        for piece in job_pieces(jobs, asked.session.client.cluster().cluster):
            asked.call.write(piece)
        return 0
    is_empty = True
    for job in jobs:
        is_empty = False
        record(asked, list(_lines(job, details=asked.options.has("details"))))
    if is_empty:
        asked.call.write("No jobs in the system\n")
    return 0


def show_steps(asked: ScontrolCall) -> int:
    """Those that run: of all jobs, of those that are named, or single ones (`12.0`). Raises NotFound, BadRequest."""
    is_empty = True
    for word in [part for each in asked.words for part in each.split(",") if part] or [""]:
        name, dot, label = word.partition(".")
        if dot and not STEP_NAME.fullmatch(label):
            raise BadRequest(f"Invalid job step id specified: {word[:60]}")
        jobs = _jobs(asked.with_words((name,) if name else ()))
        steps = [step for job in jobs for step in running_steps(job) if label in ("", step.label)]
        if dot and not steps:
            raise NotFound(f"Job step {word[:60]} not found")
        for step in steps:
            is_empty = False
            record(asked, list(_step(step)))
    if is_empty:
        asked.call.write("No job steps in the system\n")
    return 0


def _jobs(asked: ScontrolCall) -> Iterator[SlurmJob]:
    clock = clock_of(asked.call)
    named = [word for part in asked.words for word in part.split(",") if word]
    if not named:
        found = asked.session.client.jobs(JobFilter(user="all", finished=True))
        yield from folded((SlurmJob(job, clock) for job in found), asked.call.env)
    for word in named:
        yield from folded((SlurmJob(job, clock) for job in asked.jobs(*parse_job(word))), asked.call.env)


def _lines(job: SlurmJob, *, details: bool) -> Iterator[str]:
    yield _identity(job)
    yield from _state(job, details=details)
    yield from _times(job)
    yield from _places(job)
    yield from _resources(job, details=details)
    yield from _files(job)


def _identity(job: SlurmJob) -> str:
    array = f" ArrayJobId={job.array_id} ArrayTaskId={job.index}" if index_of(job.view.job_id) else ""
    if array and job.spec.array_limit:
        array += f" ArrayTaskThrottle={job.spec.array_limit}"
    return f"JobId={job.raw_id}{array} JobName={free_text(job.name)}"


def _state(job: SlurmJob, *, details: bool) -> Iterator[str]:
    spec = job.spec
    uid = "" if job.uid is None else job.uid
    group = f"{job.group[1]}({job.group[0]})" if job.group else "()"
    yield f"UserId={spec.user}({uid}) GroupId={group} MCS_label=N/A"
    yield f"Priority={job.priority} Nice=0 Account={free_text(spec.project)} QOS=normal"
    yield f"JobState={job.state} Reason={job.reason} Dependency={free_text(waits_for(job)) or '(null)'}"
    is_batch = int(not spec.interactive)
    code = "{}:{}".format(*job.job_exit_code)
    yield (
        f"Requeue={int(bool(spec.rerunnable))} Restarts={job.view.requeues} BatchFlag={is_batch} Reboot=0 "
        f"ExitCode={code}"
    )
    if details:
        yield "DerivedExitCode={}:{}".format(*job.exit_code)


def _times(job: SlurmJob) -> Iterator[str]:
    clock, spec, view = job.clock, job.spec, job.view
    limit = "UNLIMITED" if spec.run_limit_s is None else long_duration(spec.run_limit_s)
    yield f"RunTime={long_duration(job.elapsed_s)} TimeLimit={limit} TimeMin=N/A"
    yield f"SubmitTime={clock.moment(view.submitted_at)} EligibleTime={clock.moment(job.eligible_at)}"
    yield f"AccrueTime={clock.moment(job.eligible_at)}"
    started = None if job.is_pending else job.started_at
    yield (
        f"StartTime={clock.moment(started or job.planned_at)} EndTime={clock.moment(job.ends_at)} "
        f"Deadline={clock.moment(spec.terminate_at, 'N/A')}"
    )
    yield f"SuspendTime=None SecsPreSuspend=0 LastSchedEval={clock.moment(view.pending_reasons_at)} Scheduler=Main"


def _places(job: SlurmJob) -> Iterator[str]:
    spec = job.spec
    yield f"Partition={spec.queue} AllocNode:Sid={free_text(spec.submit_host)}:0"
    yield f"ReqNodeList={fold_nodes(spec.hosts) or '(null)'} ExcNodeList={fold_nodes(excluded_nodes(job)) or '(null)'}"
    yield f"NodeList={job.node_list}"
    if job.hosts:
        yield f"BatchHost={job.hosts[0]}"


def _resources(job: SlurmJob, *, details: bool) -> Iterator[str]:
    yield f"NumNodes={job.nodes} NumCPUs={job.cpus} NumTasks={tasks_of(job)} CPUs/Task=1 ReqB:S:C:T=0:0:*:*"
    yield f"TRES={(held_tres(job) or requested_tres(job)).removeprefix(f'billing={job.cpus},')},billing={job.cpus}"
    yield "Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*"
    for at, part in enumerate(job.parts if details else ()):
        cpus = ",".join(map(str, sorted(set(part.cpus))))
        memory = f"{part.amounts.get('mem', 0.0):.0f}"
        yield f"  Nodes={part.host} CPU_IDs={cpus} Mem={memory} GRES={gpu_detail(job, at)}"
    yield f"MinCPUsNode=1 MinMemoryNode={shown_size(job.memory_mib) if job.memory_mib else 0} MinTmpDiskNode=0"
    yield "Features=(null) DelayBoot=00:00:00"
    over = "NO" if job.spec.exclusive else "OK"
    yield f"OverSubscribe={over} Contiguous=0 Licenses=(null) Network=(null)"


def _files(job: SlurmJob) -> Iterator[str]:
    yield f"Command={free_text(job.spec.command)}"
    yield f"WorkDir={free_text(job.spec.run_dir)}"
    if job.spec.description:
        yield f"Comment={free_text(job.spec.description)}"
    result = job.view.result
    if result is not None and result.problem:
        yield f"SystemComment={free_text(sentence(result.problem))}"
    if job.spec.reservation:
        yield f"Reservation={free_text(job.spec.reservation)}"
    yield f"StdErr={free_text(standard_error(job))}"
    yield f"StdIn={free_text(standard_input(job))}"
    yield f"StdOut={free_text(standard_output(job))}"
    yield "Power="
    if job.gpus_per_node:
        yield f"TresPerNode=gres:gpu:{job.gpus_per_node}"


def _step(step: SlurmStep) -> Iterator[str]:
    job = step.job
    limit = "UNLIMITED" if job.spec.run_limit_s is None else long_duration(job.spec.run_limit_s)
    uid = "" if job.uid is None else job.uid
    started = job.clock.moment(step.started_at)
    yield f"StepId={job.raw_id}.{step.label} UserId={uid} StartTime={started} TimeLimit={limit}"
    yield f"State={step.state} Partition={job.spec.queue} NodeList={step.node_list}"
    yield f"Nodes={step.nodes} CPUs={step.cpus} Tasks={step.tasks} Name={free_text(step.name)} Network=(null)"
    yield f"TRES={step_tres(step)}"
