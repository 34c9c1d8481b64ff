"""Application profiles at admission, and what pre- and post-execution commands mean for a job."""

from __future__ import annotations

import msgspec
import pytest
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.core.command import Submit
from gsched.model.config import ClusterConfig, Params
from gsched.model.event import JobNoted, JobRequeued
from gsched.model.jobs.job import JobState
from gsched.model.queues.application import Application, niceness
from gsched.model.queues.queue import Queue, RunLimits

CARE = Application(
    name="care",
    task_limit=(2, 3, 4),
    run_limit_s=600,
    estimate_s=60,
    limits={"MEMLIMIT": 100.0},
    res_req="rusage[mem=10] order[ut]",
    rerunnable=True,
    requeue_exit_values="99",
    max_requeue=1,
)


def config(default: str = "", **queue: object) -> ClusterConfig:
    made = make_config()
    changed = msgspec.structs.replace(made.queues["normal"], **queue)
    return msgspec.structs.replace(
        made,
        applications={"care": CARE},
        queues=made.queues | {"normal": changed},
        params=msgspec.structs.replace(made.params, default_application=default),
    )


def test_a_profile_fills_in_what_the_job_does_not_say() -> None:
    world = World(config(res_req="rusage[mem=5:swp=7]", limits={"MEMLIMIT": RunLimits(500.0, 50.0)}))
    plain, own, other = world.submit(
        spec(application="care", defaulted=("slots",)),
        spec(
            application="care",
            slots=2,
            run_limit_s=60,
            limits={"MEMLIMIT": 200.0},
            rerunnable=False,
            res_req="rusage[mem=20]",
        ),
        spec(),
    )
    one, two, three = (world.job(number).spec for number in (plain, own, other))
    assert (one.slots, one.run_limit_s, one.estimate_s, one.limits) == (3, 600, 60, {"MEMLIMIT": 100.0})
    assert (one.rerunnable, one.requeue_exit_values) == (True, "99")
    assert "order[ut] rusage[swp=7.00,mem=10.00]" in one.combined_req
    assert (two.slots, two.run_limit_s, two.limits, two.rerunnable) == (2, 60, {"MEMLIMIT": 200.0}, False)
    assert "order[ut] rusage[swp=7.00,mem=20.00]" in two.combined_req
    assert (three.application, three.run_limit_s, three.limits) == ("", None, {"MEMLIMIT": 50.0})


def test_a_profile_is_taken_back_with_what_it_said() -> None:
    world = World(config())
    (number,) = world.submit(spec(application="care", defaulted=("slots",)))
    assert world.modify(number, application="") == [""]
    now = world.job(number).spec
    assert (now.application, now.slots, now.run_limit_s, now.limits, now.requeue_exit_values) == ("", 1, None, {}, "")
    world.check_replay()


def test_the_default_profile_counts_for_jobs_that_name_none() -> None:
    world = World(config(default="care"))
    (number,) = world.submit(spec(slots=2))
    assert (world.job(number).spec.application, world.job(number).spec.run_limit_s) == ("care", 600)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"application": "nosuch"}, "nosuch: No such application profile"),
        ({"application": "care"}, "Too few processors requested: 1, application profile care wants 2"),
        ({"application": "care", "slots": 5}, "Too many processors requested: 5, application profile care allows 4"),
    ],
)
def test_what_a_profile_does_not_allow_is_refused(changes: dict[str, object], reason: str) -> None:
    world = World(config())
    with pytest.raises(BadRequest) as caught:
        world.do(Submit("ann", "", (spec(**changes),)))
    assert caught.value.text == reason


def test_jobs_wait_while_their_profile_does_not_exist() -> None:
    world = World(config())
    without = msgspec.structs.replace(world.config, applications={})
    world.run(spec(slots=16))
    profiled = spec(application="care", slots=2)
    alone, array, other, forced = world.submit(
        profiled, msgspec.structs.replace(profiled, indices="1-2"), spec(), profiled
    )
    world.reconfigure(without)
    world.started(1)
    world.ended(1, exit_code=0)
    world.settle()
    assert world.state(other) == JobState.RUN, "it has no profile"
    said = ("The application profile care no longer exists",)
    assert world.reasons(alone) == world.reasons(array) == said
    assert world.order("run", forced, user="root", hosts=("a",)) == [""]
    world.settle()
    (note,) = [sentence(event.text) for event in world.events if isinstance(event, JobNoted) and event.job_id == forced]
    assert note == f"{said[0]}: its commands are not run", "an administrator's word counts more, and that is said"
    world.reconfigure(config())
    world.settle()
    assert (world.state(alone), world.state(forced)) == (JobState.RUN, JobState.RUN)
    world.check_replay()


def test_the_profiles_most_requeues_count_before_the_queues() -> None:
    world = World(config(max_requeue=5))
    (number,) = world.run(spec(application="care", slots=2))
    world.started(number)
    world.ended(number, exit_code=99)
    assert world.state(number) == JobState.PEND
    world.settle()
    world.started(number)
    world.ended(number, attempt=2, exit_code=99)
    assert world.state(number) == JobState.EXIT


def test_a_job_whose_pre_exec_command_fails_waits_again_though_it_was_started() -> None:
    world = World()
    (number,) = world.run(spec())
    world.started(number)
    problem = "The job's pre-exec command exited with non-zero status (4)"
    world.ended(number, exit_code=None, started=False, pre_failed=True, problem=problem)
    job = world.job(number)
    assert (job.state, job.failed_starts, job.started_at) == (JobState.PEND, 1, None)
    assert world.reasons(number) == (
        "The job's pre-exec command exited with non-zero status (waiting before the next attempt to start it; "
        "the last one failed on a with exit code 4)",
    )
    world.wait(60)
    world.settle()
    world.started(number)
    world.ended(number, attempt=2, exit_code=0)
    assert world.state(number) == JobState.DONE
    world.check_replay()


@pytest.mark.parametrize("ends", [True, False])
def test_a_pre_exec_command_may_fail_so_often_only(ends: bool) -> None:
    world = World()
    world.reconfigure(world.with_params(max_preexec_retry=2, preexec_exit=ends))
    (number,) = world.run(spec())

    def fails(attempt: int) -> None:
        world.started(number)
        problem = "The job's pre-exec command exited with non-zero status (4)"
        world.ended(number, attempt=attempt, exit_code=None, started=False, pre_failed=True, problem=problem)

    fails(1)
    assert world.state(number) == JobState.PEND
    world.wait(60)
    world.settle()
    fails(2)
    assert world.state(number) == (JobState.EXIT if ends else JobState.PSUSP)
    if not ends:
        (last,) = [event for event in world.events if isinstance(event, JobRequeued) and event.hold]
        assert sentence(last.reason).endswith("; 2 failed starts are the most (MAX_PREEXEC_RETRY), so it is suspended")
        said = "The job's pre-exec command exited with non-zero status (suspended after 2 failed starts)"
        assert world.reasons(number) == (said,)
        assert world.control("resume", number) == [""], "its owner may"
        world.settle()
        assert world.state(number) == JobState.RUN
    world.check_replay()


@pytest.mark.parametrize(("codes", "kept_off"), [("4 5", True), ("all ~5", True), ("5", False), ("", False)])
def test_an_exit_code_of_pre_exec_keeps_the_job_off_the_host(codes: str, kept_off: bool) -> None:
    world = World()
    world.reconfigure(world.with_params(preexec_excludes=codes))
    (number,) = world.run(spec())
    world.started(number)
    failed = {"exit_code": None, "started": False, "pre_failed": True, "pre_exec": "PRE_EXEC", "pre_exec_code": 4}
    world.ended(number, **failed)
    world.wait(600)
    world.settle()
    assert world.job(number).excluded_hosts == (("a",) if kept_off else ())
    assert world.state(number) == (JobState.PEND if kept_off else JobState.RUN)
    world.check_replay()


def test_a_job_that_is_killed_in_its_pre_exec_command_is_over() -> None:
    world = World()
    (number,) = world.run(spec())
    world.started(number)
    world.control("kill", number)
    world.ended(number, exit_code=None, started=False, pre_failed=True, problem="...")
    assert world.state(number) == JobState.EXIT


@pytest.mark.parametrize(("code", "post_code", "wanted"), [(0, 1, "post_err"), (3, 0, "post_done"), (3, 1, "post_err")])
def test_post_done_is_what_the_post_exec_command_says(code: int, post_code: int, wanted: str) -> None:
    world = World()
    (number,) = world.run(spec())
    (child,) = world.submit(spec(dependency=f"{wanted}({number})"))
    world.started(number)
    world.ended(number, exit_code=code, post_code=post_code)
    assert world.job(child).released
    world.check_replay()


@pytest.mark.parametrize(
    ("ends", "wanted", "state"),
    [
        (((0, 0), (0, 0)), "post_done", "RUN"),
        (((0, None), (0, None)), "post_done", "RUN"),
        (((0, 0), (3, 0)), "post_done", "RUN"),
        (((0, 0), (0, 1)), "post_done", "EXIT"),
        (((0, 0), (0, 1)), "post_err", "EXIT"),
        (((0, 2), (3, 1)), "post_err", "RUN"),
        (((0, 2), (3, None)), "post_err", "RUN"),
    ],
)
def test_post_done_of_an_array_is_that_of_all_its_elements(
    ends: tuple[tuple[int, int | None], ...], wanted: str, state: str
) -> None:
    world = World()
    (array,) = world.run(spec(name="x", indices="1-2"))
    (child,) = world.submit(spec(dependency=f"{wanted}({array})"))
    for index, (code, post_code) in enumerate(ends, 1):
        assert world.state(child) == "PEND"
        world.ended(index << 32 | array, exit_code=code, post_code=post_code)
    world.settle()
    assert world.state(child) == state
    world.check_replay()


def test_an_orphan_that_asks_for_it_ends_where_others_wait() -> None:
    made = make_config()
    params = msgspec.structs.replace(made.params, end_on_invalid_dependency=False)
    world = World(msgspec.structs.replace(made, params=params))
    (number,) = world.run(spec())
    waits, ends = world.submit(spec(dependency=f"done({number})"), spec(dependency=f"done({number})", end_orphan=True))
    world.started(number)
    world.ended(number, exit_code=1)
    assert (world.state(waits), world.state(ends)) == (JobState.PEND, JobState.EXIT)


@pytest.mark.parametrize("end_invalid", [True, False])
def test_an_orphan_from_the_start_is_taken_and_ends(end_invalid: bool) -> None:
    made = make_config()
    world = World(
        msgspec.structs.replace(
            made, params=msgspec.structs.replace(made.params, end_on_invalid_dependency=end_invalid)
        )
    )
    (number,) = world.run(spec())
    world.ended(number, exit_code=1)
    (orphan,) = world.submit(spec(dependency=f"done({number})", end_orphan=True))
    world.settle()
    assert world.state(orphan) == JobState.EXIT
    (child,) = world.submit(spec(dependency=f"ended({orphan})"))
    world.settle()
    assert world.state(child) == JobState.RUN
    result = world.job(orphan).result
    assert result is not None and result.term_reason == "TERM_ORPHAN_SYSTEM"
    world.check_replay()


@pytest.mark.parametrize(
    ("merge", "asked", "shown"),
    [
        (False, "num=2:mode=shared", "num=2:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia"),
        (False, "", "num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia:gmem=2G"),
        (True, "num=2:mode=shared", "num=2:mode=shared:mps=no:j_exclusive=yes:gvendor=nvidia:gmem=2G"),
        (True, "", "num=1:mode=shared:mps=no:j_exclusive=yes:gvendor=nvidia:gmem=2G"),
    ],
)
def test_gpu_options_of_a_profile_and_its_queue_are_merged_where_merging_is_on(
    merge: bool, asked: str, shown: str
) -> None:
    queue = Queue(name="normal", priority=30, gpu_req="num=1:j_exclusive=yes")
    profile = Application(name="sim", gpu_req="num=1:gmem=2G")
    params = Params(gpu_req_merge=merge)
    here = World(make_config(queues=[queue], applications={"sim": profile}, params=params), connect=False)
    here.connect("a", gpus(4, SHARED, memory_mib=8192))
    (job,) = here.submit(spec(gpu_req=asked, application="sim"))
    assert here.job(job).spec.combined_gpu_req == shown


def test_pre_exec_retries_of_a_profile_count_before_the_queues_and_these_before_the_clusters() -> None:
    made = config(max_preexec_retry=1, preexec_exit=True)
    profiles = {"care": msgspec.structs.replace(CARE, max_preexec_retry=2)}
    world = World(msgspec.structs.replace(made, applications=profiles))
    world.reconfigure(world.with_params(max_preexec_retry=3, preexec_exit=False))
    plain, profiled = world.run(spec(), spec(application="care", slots=2))
    for number in (plain, profiled):
        world.started(number)
        world.ended(number, exit_code=None, started=False, pre_failed=True, problem="...")
    assert (world.state(plain), world.state(profiled)) == (JobState.EXIT, JobState.PEND)


@pytest.mark.parametrize(
    ("of_queue", "of_profile", "code", "state"),
    [
        ("7 20-22", "", 7, JobState.DONE),
        ("7 20-22", "", 22, JobState.DONE),
        ("7 20-22", "", 23, JobState.EXIT),
        ("7", "8", 7, JobState.EXIT),  # the profile's count instead of the queue's
        ("7", "8", 8, JobState.DONE),
        ("7", "", 0, JobState.DONE),
    ],
)
def test_exit_codes_with_which_a_job_is_done(of_queue: str, of_profile: str, code: int, state: JobState) -> None:
    made = config(success_exit_values=of_queue)
    profile = Application(name="care", success_exit_values=of_profile)
    world = World(msgspec.structs.replace(made, applications={"care": profile}))
    (number,) = world.run(spec(application="care"))
    done, failed = world.submit(spec(dependency=f"done({number})"), spec(dependency=f"exit({number})"))
    world.started(number)
    world.ended(number, exit_code=code)
    assert world.state(number) == state
    assert (world.job(done).released, world.job(failed).released) == (state == JobState.DONE, state == JobState.EXIT)
    result = world.job(number).result
    assert result is not None and result.exit_code == code
    world.check_replay()


def test_a_job_that_is_killed_or_asks_for_another_run_is_not_done_by_its_exit_code() -> None:
    world = World(config(success_exit_values="7 9", requeue_exit_values="9"))
    killed, again = world.run(spec(), spec())
    world.started(killed)
    world.started(again)
    world.control("kill", killed)
    world.ended(killed, exit_code=7)
    world.ended(again, exit_code=9)
    assert (world.state(killed), world.state(again)) == (JobState.EXIT, JobState.PEND)
    world.check_replay()


def test_the_queue_warns_jobs_that_say_nothing_of_it_themselves() -> None:
    world = World(config(warning_signal="URG", warning_s=120))
    plain, own = world.submit(spec(run_limit_s=600), spec(run_limit_s=600, warning_signal="USR1", warning_s=60))
    one, two = world.job(plain).spec, world.job(own).spec
    assert (one.warning_signal, one.warning_s, one.saves_on_signal) == ("URG", 120, False)
    assert (two.warning_signal, two.warning_s) == ("USR1", 60)
    assert world.modify(plain, name="x") == [""]
    assert world.job(plain).spec.warning_signal == "URG"


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ("rusage[mem=100]", False),
        ("rusage[mem=99]", True),
        ("rusage[mem=201]", True),
        ("rusage[swp=900]", False),
        ("{rusage[mem=150]} || {rusage[mem=300]}", True),
        ("", False),
    ],
)
def test_a_queue_limits_what_rusage_asks_for(asked: str, refused: bool) -> None:
    made = config(reserve_limits={"mem": (100.0, 200.0)}, res_req="rusage[mem=1]")
    world = World(msgspec.structs.replace(made, applications={"care": Application(name="care", res_req=asked)}))
    for job in (spec(res_req=asked), spec(application="care")):
        if refused:
            with pytest.raises(BadRequest, match="the queue normal allows from 100MB to 200MB in rusage"):
                world.submit(job)
        else:
            world.submit(job)


def test_profile_and_cluster_say_where_jobs_run_that_do_not_say_it() -> None:
    made = config()
    folders = Application(name="folders", job_cwd="run/%J", output_dir="/out/%U")
    params = msgspec.structs.replace(made.params, default_job_cwd="/scratch/%J", default_job_outdir="")
    world = World(msgspec.structs.replace(made, params=params, applications=made.applications | {"folders": folders}))
    plain, profiled, own, other = world.submit(
        spec(cwd="/home/ann"),
        spec(cwd="/home/ann", application="folders"),
        spec(cwd="/home/ann", application="folders", specified_cwd="/w", output_dir="/o"),
        spec(cwd="/home/ann", front_end="slurm"),
    )
    found = [(world.job(each).spec.specified_cwd, world.job(each).spec.output_dir) for each in (plain, profiled, own)]
    assert found == [("/scratch/%J", ""), ("/home/ann/run/%J", "/out/%U"), ("/w", "/o")]
    assert world.job(other).spec.specified_cwd == ""
    params = msgspec.structs.replace(params, default_job_cwd="%H/run", default_job_outdir="%H/out")
    world.reconfigure(
        msgspec.structs.replace(made, params=params, applications=made.applications | {"folders": folders})
    )
    (at_home,) = world.submit(spec(cwd="/work/x"))
    assert (world.job(at_home).spec.specified_cwd, world.job(at_home).spec.output_dir) == ("%H/run", "%H/out")
    params = msgspec.structs.replace(params, default_job_cwd="/scratch/%J", default_job_outdir="")
    world.reconfigure(
        msgspec.structs.replace(made, params=params, applications=made.applications | {"folders": folders})
    )
    assert world.modify(profiled, application="") == [""]
    assert world.job(profiled).spec.specified_cwd == "/scratch/%J" and world.job(profiled).spec.output_dir == ""


@pytest.mark.parametrize(("of_queue", "requeued"), [(None, True), (0, False)])
def test_the_clusters_most_requeues_count_where_nobody_else_says(of_queue: int | None, requeued: bool) -> None:
    made = config(max_requeue=of_queue, requeue_exit_values="99")
    world = World(msgspec.structs.replace(made, params=msgspec.structs.replace(made.params, max_requeue=1)))
    (number,) = world.run(spec())
    world.started(number)
    world.ended(number, exit_code=99)
    assert (world.state(number) == JobState.PEND) is requeued
    if requeued:
        world.settle()
        world.started(number)
        world.ended(number, attempt=2, exit_code=99)
        assert world.state(number) == JobState.EXIT


def test_the_profiles_niceness_counts_before_the_queues() -> None:
    queue = Queue(name="q", nice=5)
    assert niceness(queue, Application(name="a", nice=0)) == 0
    assert [niceness(queue, profile) for profile in (None, Application(name="a"))] == [5, 5]
    assert niceness(None, None) == 0
