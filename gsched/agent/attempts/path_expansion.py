"""What stands in a job's options only once it is known where and as which job it runs: folders with patterns, the
copies of -f and the job's temporary directory as commands.

Decides nothing and touches no file. Source: bsub(1), -cwd, -outdir and -f; lsf.conf(5), LSB_JOB_TMPDIR.
"""

from __future__ import annotations

import posixpath
import re

import msgspec

from gsched.base.coded_text import coded
from gsched.base.ids import array_of, index_of
from gsched.model.hosts.job_tmpdir import OWN_TMPDIR
from gsched.model.jobs.job import JobSpec
from gsched.run.order import JobStep, Order

_PATTERN = re.compile("%(JG|J|I|EJ|EI|P|U|G|H)")


def settled(spec: JobSpec, job_id: int, user: str, unix_group: str) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec with its folders' patterns filled in and its output files in -outdir; and the folders to be made."""
    if not spec.output_dir and "%" not in spec.specified_cwd:
        return spec, ()
    number, index = str(array_of(job_id)), str(index_of(job_id))
    values = {
        "J": number,
        "EJ": number,
        "I": index,
        "EI": index,
        "JG": spec.group.strip("/"),
        "P": spec.project,
        "U": user,
        "G": unix_group,
        "H": spec.home,
    }

    def filled(path: str) -> str:
        return _PATTERN.sub(lambda found: values[found[1]], path)

    cwd, output_dir = filled(spec.specified_cwd), filled(spec.output_dir)
    made = (cwd,) if cwd != spec.specified_cwd else ()
    spec = msgspec.structs.replace(spec, specified_cwd=cwd, output_dir=output_dir)
    if not output_dir:
        return spec, made
    return msgspec.structs.replace(
        spec,
        output_file=posixpath.join(output_dir, spec.output_file) if spec.output_file else "",
        error_file=posixpath.join(output_dir, spec.error_file) if spec.error_file else "",
    ), (*made, output_dir)


def copies(spec: JobSpec) -> tuple[list[JobStep], list[JobStep]]:
    """-f: (copies before the job, copies after it). A file that has both names already is left alone."""
    before: list[JobStep] = []
    after: list[JobStep] = []
    for text in spec.file_copies:
        local, how, remote = text.split()
        local, remote = posixpath.join(spec.cwd, local), posixpath.join(spec.run_dir, remote)
        if how in (">", "><", "<>"):
            before.append(_copied(local, remote, f"-f '{text}'"))
        if how in ("<", "><", "<>"):
            after.append(_copied(remote, local, f"-f '{text}'"))
        if how == "<<":
            line = f"[ {_word(remote)} -ef {_word(local)} ] || cat -- {_word(remote)} >> {_word(local)}"
            after.append(JobStep(command=line, what=f"-f '{text}'"))
    return before, after


def _copied(source: str, target: str, what: str) -> JobStep:
    return JobStep(
        command=f"[ {_word(source)} -ef {_word(target)} ] || cp -- {_word(source)} {_word(target)}", what=what
    )


def _word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def with_tmpdir(order: Order, path: str, variable: str, host: str) -> Order:
    """The order of a job that has a temporary directory of its own on this host: made first, and removed last. One that
    is there already is never taken over: the folder above is everybody's.
    """
    if not path:
        return order
    word = _word(path)
    made = JobStep(command=f"/bin/mkdir -m 0700 -- {word}", what=coded("step.tmpdir", posixpath.dirname(path), host))
    removed = JobStep(command=f"/bin/rm -rf -- {word}", what=coded("step.tmpdir_removal", path), undoes_first=True)
    told = {OWN_TMPDIR: path, variable: path} if variable else {OWN_TMPDIR: path}
    return msgspec.structs.replace(
        order,
        first=(made, *order.first),
        last=(*order.last, removed),
        environment={**order.environment, **told},
    )
