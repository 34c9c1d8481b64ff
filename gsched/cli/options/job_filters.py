"""Which jobs the filters of a command line mean: what the master is asked for, and what is dropped of its answer here.

Nothing here asks the master; the filters that it does not know look at one job's view each.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable

from gsched.cli.session.call import Call
from gsched.cli.session.command_line import SERVICE_CLASS
from gsched.dialect.options import Option, Parsed
from gsched.model.views.view import JobFilter, JobView

OF_DESCRIPTION = Option("Jd", "TEXT", "only jobs of this description; * stands for anything", "-Jd 'first*'")
WITH_RUSAGE = Option(
    "rusage", "NAMES", "only jobs that reserve all of these resources by rusage", "-rusage mem,ngpus_excl_p"
)
OF_USER_GROUP = Option("G", "GROUP", "only jobs that were submitted with this user group", "-G physics")
NARROWING = (
    Option("app", "PROFILE", "only jobs of this application profile", "-app training"),
    SERVICE_CLASS,
    OF_USER_GROUP,
    OF_DESCRIPTION,
    Option("U", "RESERVATION", "only jobs of this advance reservation", "-U ann#0"),
    WITH_RUSAGE,
)
ONLY_HERE = ("G", "Jd", "U", "rusage")
"""Those of them that no question to the master can say."""


def asked_jobs(
    call: Call, options: Parsed, job_ids: tuple[int, ...] = (), *, states: tuple[str, ...] = (), finished: bool = False
) -> JobFilter:
    """What -u, -q, -m, -J, -P, -g, -app and -sla ask the master for. Without -u: anybody's of the jobs that are named,
    else the caller's. Named jobs may have ended, others only with `finished`.
    """
    return JobFilter(
        ids=job_ids,
        user=options.last("u", "all" if job_ids else call.user),
        queue=options.last("q"),
        host=options.last("m"),
        name=options.last("J"),
        project=options.last("P"),
        group=options.last("g"),
        application=options.last("app"),
        service_class=options.last("sla"),
        states=states,
        finished=bool(job_ids) or finished,
    )


def chosen_filter(options: Parsed) -> Callable[[JobView], bool]:
    """Whether a job is admitted by all of NARROWING that were given."""
    tests: list[Callable[[JobView], bool]] = []
    if options.has("app"):
        tests.append(lambda view: view.spec.application == options.last("app"))
    if options.has("sla"):
        tests.append(lambda view: view.spec.service_class == options.last("sla"))
    if options.has("G"):
        tests.append(lambda view: view.spec.user_group == options.last("G"))
    if options.has("Jd"):
        pattern = options.last("Jd").replace("[", "[[]").replace("?", "[?]")
        tests.append(lambda view: fnmatch.fnmatchcase(view.spec.description, pattern))
    if options.has("U"):
        tests.append(lambda view: view.spec.reservation == options.last("U"))
    if options.has("rusage"):
        names = {name for name in options.last("rusage").replace(",", " ").split() if name}
        tests.append(lambda view: names <= reserved_names(view.spec.combined_req))
    return lambda view: all(test(view) for test in tests)


def reserved_names(requirement: str) -> frozenset[str]:
    """Names of the resources in the rusage sections of a combined requirement, as it is printed."""
    found = set()
    for section in requirement.split("rusage[")[1:]:
        for part in section.partition("]")[0].replace("||", ",").replace(":", ",").split(","):
            name, equals, _ = part.partition("=")
            if equals and name.strip() not in ("duration", "decay"):
                found.add(name.strip(" ({"))
    return frozenset(found)
