"""lsb.applications: one section per application profile. Source: lsb.applications(5)."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.config.grammar.findings import Findings
from gsched.config.grammar.sections import ConfigSection, read_entries
from gsched.config.grammar.unsupported import AS_HERE_APPLICATION, REFUSED_APPLICATION, WITHOUT_EFFECT_APPLICATION
from gsched.config.grammar.values import (
    KeyValues,
    command_line,
    integer,
    job_folder,
    minutes,
    nice,
    plain_text,
    queue_name,
    yes_or_no,
)
from gsched.config.parameters.containers import site_container
from gsched.config.parameters.job_limits import job_limits, job_sizes, resizable_jobs, tasks, time_s
from gsched.config.parameters.job_surroundings import control_action, env_vars
from gsched.config.parameters.preemption import read_sparing
from gsched.config.parameters.requirements import RequirementJudge, gpu_requirement
from gsched.config.parameters.retries import exit_values, preexec_retries, retry_action, success_values
from gsched.model.queues.application import Application
from gsched.model.queues.job_controls import JobControls


def read_applications(
    sections: Sequence[ConfigSection], judge: RequirementJudge, findings: Findings
) -> dict[str, Application]:
    """All profiles by name in file order. Every problem goes to `findings`."""
    found: dict[str, Application] = {}
    for section in sections:
        if findings.is_full(section.at.path):
            break
        if section.name.casefold() != "application":
            findings.error(section.at, f"unknown section {section.name} in lsb.applications; it holds Application")
            continue
        profile = _read(section, judge, findings)
        if not profile.name:
            continue
        if profile.name in found:
            first = found[profile.name].source
            findings.error(section.at, f"application profile {profile.name} is defined twice (first at {first})")
            continue
        found[profile.name] = profile
    return found


def _read(section: ConfigSection, judge: RequirementJudge, findings: Findings) -> Application:
    """The profile; its name is empty when it has none that can be used (which is reported)."""
    settings = KeyValues(read_entries(section, findings), findings, where="section Application")
    name = settings.take("NAME", queue_name, "")
    if not name and settings.place("NAME") is None:
        findings.error(section.at, "the application profile has no NAME")
    sizes = settings.take("JOB_SIZE_LIST", job_sizes, ())
    profile = Application(
        name=name,
        description=settings.take("DESCRIPTION", plain_text, ""),
        task_limit=tasks(settings, sizes, findings),
        job_sizes=sizes,
        run_limit_s=settings.take("RUNLIMIT", time_s, None),
        estimate_s=settings.take("RUNTIME", time_s, settings.take("ESTIMATED_RUNTIME", time_s, None)),
        limits={
            name: limit.maximum for name, limit in job_limits(settings, judge.unit).items() if limit.maximum is not None
        },
        res_req=settings.take("RES_REQ", judge.requirement, ""),
        gpu_req=settings.take("GPU_REQ", gpu_requirement(judge.unit), ""),
        rerunnable=settings.take("RERUNNABLE", yes_or_no, None),
        resizable=settings.take("RESIZABLE_JOBS", resizable_jobs, ""),
        requeue_exit_values=settings.take("REQUEUE_EXIT_VALUES", exit_values, ""),
        success_exit_values=settings.take("SUCCESS_EXIT_VALUES", success_values, ""),
        max_preexec_retry=preexec_retries(settings),
        preexec_exit=settings.take("LOCAL_MAX_PREEXEC_RETRY_ACTION", retry_action, None),
        sparing=read_sparing(settings),
        nice=settings.take("NICE", nice, None),
        max_requeue=settings.take("MAX_JOB_REQUEUE", integer(0, 2**31 - 2), None),
        pre_exec=settings.take("PRE_EXEC", command_line, ""),
        post_exec=settings.take("POST_EXEC", command_line, ""),
        host_pre_exec=settings.take("HOST_PRE_EXEC", command_line, ""),
        host_post_exec=settings.take("HOST_POST_EXEC", command_line, ""),
        job_starter=settings.take("JOB_STARTER", command_line, ""),
        container=settings.take("CONTAINER", site_container, ""),
        job_cwd=settings.take("JOB_CWD", job_folder, ""),
        output_dir=settings.take("OUTDIR", job_folder, ""),
        pre_timeout_s=settings.take("JOB_PREPROC_TIMEOUT", minutes, None),
        post_timeout_s=settings.take("JOB_POSTPROC_TIMEOUT", minutes, None),
        env_vars=settings.take("ENV_VARS", env_vars, {}),
        controls=JobControls(
            suspend=settings.take("SUSPEND_CONTROL", control_action, ""),
            resume=settings.take("RESUME_CONTROL", control_action, ""),
            terminate=settings.take("TERMINATE_CONTROL", control_action, ""),
        ),
        source=str(section.at),
    )
    settings.finish(REFUSED_APPLICATION, WITHOUT_EFFECT_APPLICATION, as_here=AS_HERE_APPLICATION)
    return profile
