"""Where the site has jobs run, and put what they print, that say nothing of it themselves.

Patterns stay in the paths until a job starts (gsched.agent.attempts.path_expansion). It changes nothing and touches no
file. Source: lsb.params(5), DEFAULT_JOB_CWD and DEFAULT_JOB_OUTDIR; lsb.applications(5), JOB_CWD and OUTDIR.
"""

from __future__ import annotations

from gsched.base.patterns import counted_from
from gsched.model.config import Params
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.application import Application

FOLDERS = ("specified_cwd", "output_dir")
"""Fields of a specification that it may fill in."""


def site_folders(spec: JobSpec, profile: Application, params: Params) -> dict[str, str]:
    """Field -> path, of those that profile or cluster fill in. Relative ones count from where the job was submitted.

    Jobs of Slurm's and PBS's commands run where these have them run.
    """
    if spec.front_end:
        return {}
    wanted = (profile.job_cwd or params.default_job_cwd, profile.output_dir or params.default_job_outdir)
    return {
        name: counted_from(spec.cwd or "/", path)
        for name, path in zip(FOLDERS, wanted, strict=True)
        if path and not getattr(spec, name)
    }
