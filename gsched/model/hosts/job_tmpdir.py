"""Where the temporary directory of each job is, and which of its variables names it. It makes none.

Source: lsf.conf(5), LSB_JOB_TMPDIR, LSB_SET_TMPDIR and LSF_TMPDIR.
"""

from __future__ import annotations

import msgspec

from gsched.base.ids import array_of, index_of

FIRST_HOST = "%H"
OWN_TMPDIR = "GSCHED_TMPDIR"
"""The variable that names the directory in each job that has one."""


class JobTmpdir(msgspec.Struct, frozen=True, kw_only=True):
    """The folder in which each job gets a directory of its own; empty: jobs get none."""

    folder: str = ""
    """`%H` in it is the job's first host."""
    variable: str = ""
    """What tells the job of it; empty: nothing does."""

    def path(self, job_id: int, attempt: int, first_host: str, mark: str) -> str:
        """The directory of one attempt on one host; empty: it gets none. `mark`: a random word that no other has, also
        of other hosts that share the folder, and of other clusters.
        """
        if not self.folder:
            return ""
        index = index_of(job_id)
        name = f"{array_of(job_id)}_{index}" if index else f"{job_id}"
        return f"{self.folder.replace(FIRST_HOST, first_host).rstrip('/')}/{name}.{attempt}.{mark}.tmpdir"


NO_TMPDIR = JobTmpdir()
"""Jobs get none."""
