"""Admission: what is completed, and every refusal with its text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import EXCLUSIVE, SHARED, START, World, gpu_spec, gpus, load, make_config, spec

from gsched.base.errors import BadRequest, GschedError, PermissionDenied, RequirementError
from gsched.core.command import Submit
from gsched.core.submission import requirement_check
from gsched.model.config import GpuUnrequested, Params
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, HostConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.devices import SUDO_WARNING
from gsched.model.queues.queue import Queue, RunLimits
from gsched.model.queues.user import UserGroup

PROHIBITED = ComputeMode.PROHIBITED
QUEUES = (
    Queue(name="normal", priority=30, default_run_limit_s=3600, run_limit_s=7200),
    Queue(name="theirs", users=("bob",)),
    Queue(name="onb", hosts=("b",)),
    Queue(name="small", job_limit=4, user_limit=3, host_limit=2),
    Queue(name="drained", job_limit=0),
    Queue(name="batch", interactive="NO", rerunnable=True),
    Queue(name="shells", interactive="ONLY", rerunnable=True),
    Queue(name="tiled", res_req="span[ptile=2] rusage[mem=100]"),
    Queue(name="tasks", task_limit=(4, 6, 8), limits={"MEMLIMIT": RunLimits(maximum=200.0, default=50.0)}),
)


def world(**changes: Any) -> World:
    hosts = ("a", HostConfig(name="b", max_slots=8, values={"licence": 3.0}), HostConfig(name="client", server=False))
    groups = {"lab": UserGroup(name="lab", users=("bob",))}
    return World(make_config(hosts, QUEUES, user_groups=groups, **changes))


TOO_MANY = "Too many processors requested: {}, the usable hosts have {} slots together"


def refusal(where: World, wanted: JobSpec, user: str = "ann") -> GschedError:
    """The error; nothing has changed by it."""
    before, events = where.engine.state.dump(), len(where.events)
    with pytest.raises(GschedError) as caught:
        where.submit(spec("fine"), wanted, user=user)
    assert where.engine.state.dump() == before and len(where.events) == events
    assert "\n" not in caught.value.text and not caught.value.text.endswith(".")
    return caught.value


def test_what_is_left_out_is_completed() -> None:
    here = world()
    (job_id,) = here.submit(spec("run", project="", user="mallory", combined_req="select[nonsense"), user="ann")
    made = here.job(job_id).spec
    assert (made.user, made.queue, made.queue_named, made.project, made.run_limit_s) == (
        "ann",
        "normal",
        False,
        "default",
        3600,
    )
    assert made.combined_req == "select[type == local] order[r15s:pg]"
    assert not made.auto_gpu


def test_without_a_number_the_last_part_of_a_compound_is_one_task() -> None:
    here = world()
    (one,) = here.submit(spec(res_req="2*{ut<1} + {ut<2}"))
    (four,) = here.submit(spec(res_req="2*{ut<1} + {ut<2}", slots=6))
    assert [here.job(job).spec.slots for job in (one, four)] == [3, 6]


@pytest.mark.parametrize(
    ("wanted", "kind", "said"),
    [
        (spec("  "), BadRequest, "No command is specified"),
        (spec("x" * 1_100_000), BadRequest, "Command line too long (1100000 characters, at most 1048576)"),
        (spec(queue="nowhere"), BadRequest, "nowhere: No such queue"),
        (spec(queue="theirs"), PermissionDenied, "theirs: User cannot use the queue"),
        (spec(hosts=("z",)), BadRequest, "z: Bad host name, host group name or cluster name"),
        (spec(hosts=("client",)), BadRequest, "client: Host does not run jobs"),
        (spec(queue="onb", hosts=("a",)), BadRequest, "a: Host or host group is not used by the queue"),
        (spec(slots=0), BadRequest, "0 processors: Bad argument"),
        (spec(slots=17, res_req="span[hosts=1]"), BadRequest, "the largest usable host has 16 slots"),
        (spec(slots=25), BadRequest, TOO_MANY.format(25, 24)),
        (spec(slots=9, queue="onb"), BadRequest, TOO_MANY.format(9, 8)),
        (spec(slots=9, hosts=("b",)), BadRequest, TOO_MANY.format(9, 8)),
        (spec(slots=4, max_slots=2), BadRequest, "4,2 processors: Bad argument"),
        (spec(slots=1, queue="tasks"), BadRequest, "Too few processors requested: 1, queue tasks wants 4"),
        (spec(slots=9, queue="tasks"), BadRequest, "Too many processors requested: 9, queue tasks allows 8"),
        (spec(slots=1, max_slots=3, queue="tasks"), BadRequest, "Too few processors requested: 3"),
        (spec(slots=10, max_slots=16, queue="tasks"), BadRequest, "Too many processors requested: 10"),
        (spec(queue="batch", interactive="Is"), BadRequest, "batch: Queue does not accept interactive jobs"),
        (spec(queue="shells"), BadRequest, "shells: Queue only accepts interactive jobs"),
        (spec(exclusive=True), BadRequest, "normal: Queue does not accept EXCLUSIVE jobs"),
        (spec(priority=3), BadRequest, "Job priority control undefined"),
        (spec(user_group="ghosts"), BadRequest, "ghosts: Bad user group name"),
        (spec(user_group="lab"), BadRequest, "lab: User not in the specified user group"),
        (spec(reservation="r"), BadRequest, "r: there is no such advance reservation"),
        (spec(gpu_req="num=2:mode=shared"), BadRequest, 'provide -gpu "num=2:mode=shared": no GPU is in Default mode'),
        (
            spec(gpu_req="num=5:mode=exclusive_process"),
            BadRequest,
            'b has the most such GPUs, 4; ask for at most -gpu "num=4:mode=exclusive_process"',
        ),
        (spec(group="risk"), BadRequest, "risk: Bad job group name"),
        (spec(limits={"MEMLIMIT": 300.0}, queue="tasks"), BadRequest, "MEMLIMIT 300 MB, queue tasks allows 200 MB"),
        (spec(limits={"MEMLIMIT": 0.0}), BadRequest, "Bad argument: MEMLIMIT 0"),
        (spec(run_limit_s=0), BadRequest, "Bad argument: a run limit of 0 seconds"),
        (spec(begin_at=START + 9, terminate_at=START + 8), BadRequest, "Start time is later than termination time"),
        (spec(terminate_at=START - 1), BadRequest, "the termination time is over"),
        (spec(res_req="affinity[core(1,same=thread)]"), RequirementError, "same=thread says nothing of cores"),
        (spec(slots=5, res_req="span[stripe=2]"), BadRequest, "4 slots together with span[stripe=2]"),
        (spec(slots=5, res_req="span[block=2]"), BadRequest, "5 processors make no whole blocks of span[block=2]"),
        (
            spec(slots=5, max_slots=7, res_req="{span[block=4]}||{ut<1}"),
            BadRequest,
            "5 to 7 processors make no whole blocks",
        ),
        (
            spec(slots=5, res_req="2*{ut<1} + 3*{span[block=2]}"),
            RequirementError,
            "span[block=2]: 3 tasks do not make whole blocks at position",
        ),
        (spec(slots=5, queue="small"), BadRequest, "5, queue small allows 4 slots (QJOB_LIMIT)"),
        (spec(slots=4, queue="small"), BadRequest, "4, queue small allows 3 slots (UJOB_LIMIT)"),
        (spec(slots=3, queue="small", res_req="span[hosts=1]"), BadRequest, "the largest usable host has 2 slots"),
        (
            spec(run_limit_s=7260),
            BadRequest,
            "Cannot exceed queue's hard limit(s): 121 minutes, queue normal allows 120",
        ),
        (spec(res_req="select[ngpus>0"), RequirementError, "Bad resource requirement syntax: "),
        (
            spec(res_req="select[ngpu>0]"),
            RequirementError,
            "Bad resource name: ngpu (did you mean ngpus?) at position 8",
        ),
        (spec(res_req="order[site]"), RequirementError, "order[site]: site is not a number to sort by at position 7"),
        (
            spec(res_req="rusage[ngpuprohibited=1]"),
            RequirementError,
            "Bad resource name: ngpuprohibited cannot be reserved: a prohibited GPU is never used at position 8",
        ),
        (
            spec(res_req="rusage[ngpus_excl_p=0.5]"),
            RequirementError,
            "Bad resource requirement syntax: ngpus_excl_p=0.5: GPUs are claimed whole; a part of one is asked for by "
            "-gpu share= at position 8",
        ),
        (
            spec(res_req="rusage[heat=1]"),
            RequirementError,
            "heat is not consumable and cannot be reserved by rusage: set CONSUMABLE to Y in lsf.shared:12",
        ),
        (
            spec(res_req="rusage[ncpus=1]"),
            RequirementError,
            "ncpus is not consumable and cannot be reserved by rusage (it is",
        ),
        (spec(res_req="rusage[bigmem=1]"), RequirementError, "bigmem is not consumable"),
        (
            spec(res_req="rusage[licence=1]", hosts=("a",)),
            BadRequest,
            "licence=1: no host that the job may use has licence (ResourceMap of lsf.cluster.test)",
        ),
        (spec(res_req="rusage[licence=4]"), BadRequest, "No host can ever provide licence=4: b has the most, 3"),
        (
            spec(res_req="rusage[licence=1/task] span[hosts=1]", slots=4),
            BadRequest,
            "No host can ever provide licence=4: b has",
        ),
        (spec(res_req="rusage[mem=200G]"), BadRequest, "No host can ever provide mem=204800: b has the most, 128000"),
        (
            gpu_spec(5),
            BadRequest,
            "No host can ever provide ngpus_excl_p=5: b has the most such GPUs, 4; ask for at most",
        ),
        (
            gpu_spec(1, slots=3, res_req="span[hosts=1] rusage[ngpus_excl_p=2/task]"),
            BadRequest,
            "ngpus_excl_p=6: b has the most",
        ),
        (
            gpu_spec(1, "ngpus_shared"),
            BadRequest,
            "ngpus_shared=1: no GPU is in Default mode; ask for ngpus_excl_p=1 instead, or have "
            "an administrator set it (nvidia-smi -c 0)",
        ),
        (
            gpu_spec(2, "ngpus_excl_t"),
            BadRequest,
            "ngpus_excl_t=2: no GPU is in Exclusive_Thread mode (today's drivers no longer have "
            "it); ask for ngpus_excl_p=2 instead",
        ),
        (
            spec(res_req="rusage[ngpus=1,ngpus_excl_p=4]"),
            BadRequest,
            "No host can ever provide ngpus=1,ngpus_excl_p=4 at once: b has the most usable GPUs, 4",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_its_reason(wanted: JobSpec, kind: type[GschedError], said: str) -> None:
    error = refusal(world(), wanted)
    assert isinstance(error, kind)
    assert said in error.text


def test_root_may_be_kept_out() -> None:
    assert (
        refusal(world(params=Params(root_may_submit=False)), spec(), user="root").text
        == "Root job submission is disabled: LSF_ROOT_USER=Y in lsf.conf lets root submit"
    )
    assert world().submit(spec(), user="root") == [1]


def test_an_empty_submission_and_the_last_number_are_refused() -> None:
    here = world(params=Params(max_job_id=2))
    with pytest.raises(BadRequest, match="an empty submission"):
        here.do(Submit("ann", "", ()))
    here.submit(spec())
    assert refusal(here, spec()).text == "job id 3 would exceed MAX_JOBID 2"


@pytest.mark.parametrize(
    "wanted",
    [
        spec(queue="theirs", queue_named=True),
        spec(queue="drained", slots=9),
        spec(slots=16, res_req="span[hosts=1] same[type:model]"),
        spec(slots=4, res_req="span[hosts=-1]", queue="tiled"),
        spec(slots=4, res_req="span[ptile=4]"),
        spec(slots=17),
        spec(slots=2, res_req="span[ptile=1]"),
        spec(slots=3, queue="tiled"),
        spec(slots=1, max_slots=6, queue="tasks"),
        spec(slots=6, max_slots=10, queue="tasks"),
        spec(slots=4, queue="tasks", limits={"MEMLIMIT": 200.0}),
        spec(user_group="lab"),
        spec(slots=2, queue="tiled"),
        spec(res_req="order[-heat:mem] rusage[licence=3/host]"),
        spec(slots=4, res_req="rusage[ngpus_excl_p=1/task,mem=10/job]"),
        spec(res_req="rusage[ngpus_excl_p=2,ngpus=2]"),
        spec(res_req="select[bigmem && site==seoul]"),
    ],
)
def test_what_hosts_can_honour_is_accepted(wanted: JobSpec) -> None:
    assert world().submit(wanted, user="bob") == [1]


def test_an_administrator_may_use_every_queue() -> None:
    assert world().submit(spec(queue="theirs"), user="root") == [1]


def test_a_reservation_per_task_counts_slots() -> None:
    here = world()
    ids = here.run(spec(slots=3, res_req="rusage[ngpus_excl_p=1/task,mem=100/task,swp=7/job,tmp=5/host]"))
    (part,) = here.job(ids[0]).allocation.hosts  # type: ignore[union-attr]
    assert len(part.gpus) == 3 and part.amounts == {"mem": 300.0, "swp": 7.0, "tmp": 5.0}


def test_nothing_is_refused_for_what_is_not_known_yet() -> None:
    here = World(make_config(("a", HostConfig(name="b"))), connect=False)
    assert here.submit(gpu_spec(99), spec(slots=99), spec(res_req="rusage[mem=900G]")) == [1, 2, 3]
    here.connect("a", gpus(1))
    assert here.submit(gpu_spec(99), spec(slots=99)) == [4, 5]  # b might have them
    here.connect("b", GpuReport(known=False, reason="the probe hangs"))
    assert here.submit(gpu_spec(99)) == [6]
    here.report("b", gpus=GpuReport(gpus=(Gpu(uuid="x", index=0, mode=None),)))
    assert here.submit(gpu_spec(99)) == [7]
    here.report("b", gpus=GpuReport(reason="no driver"))
    assert "a has the most such GPUs, 1" in refusal(here, gpu_spec(99)).text
    assert "the usable hosts have 32 slots together" in refusal(here, spec(slots=99)).text


def test_sudo_is_warned_of_only_where_it_matters() -> None:
    """The fence needs no environment: its host makes the warning of gsub untrue."""
    here = World(make_config(("a", "b")), connect=False)

    def warned(**wanted: Any) -> bool:
        (done,) = here.do(Submit("ann", "", (spec(warnings=(SUDO_WARNING, "other"), **wanted),)))
        assert "other" in done.warnings
        return SUDO_WARNING in done.warnings

    assert warned()
    here.connect("a", gpus(1))
    assert warned(), "b may be unfenced"
    here.connect("b", msgspec.structs.replace(gpus(1), unfenced="the agent does not run as root"))
    assert warned()
    assert not warned(hosts=("a",))
    here.report("b", gpus=GpuReport(unfenced="the agent does not run as root"))
    assert not warned(), "b has no GPUs"


def test_prohibited_devices_do_not_count() -> None:
    here = world()
    modes = (EXCLUSIVE, EXCLUSIVE, PROHIBITED)
    for host in ("a", "b"):
        report = GpuReport(gpus=tuple(Gpu(uuid=f"{host}{i}", index=i, mode=mode) for i, mode in enumerate(modes)))
        here.report(host, gpus=report)
    assert "ngpus=3" in refusal(here, gpu_spec(3, "ngpus")).text
    assert "No host can ever provide" in refusal(here, spec(res_req="rusage[ngpus=1,ngpus_excl_p=2]")).text
    assert here.submit(spec(res_req="rusage[ngpus=1,ngpus_excl_p=1]")) == [1]


def test_a_mode_that_agents_set_is_no_reason_to_refuse_and_one_that_they_cannot_is_told() -> None:
    here = world()
    for host in ("a", "b"):
        here.report(host, gpus=msgspec.structs.replace(gpus(2, EXCLUSIVE, host), sets_modes=True))
    assert here.submit(spec(gpu_req="num=2:mode=shared"), spec(gpu_req="num=2:mode=exclusive_process")) == [1, 2]
    assert "at most" in refusal(here, spec(gpu_req="num=3:mode=shared")).text
    assert "no GPU is in Default mode" in refusal(here, gpu_spec(1, "ngpus_shared")).text
    for host in ("a", "b"):
        here.report(host, gpus=msgspec.structs.replace(gpus(2, EXCLUSIVE, host), modes_note="that needs root"))
    assert "and b sets none for jobs (that needs root)" in refusal(here, spec(gpu_req="num=2:mode=shared")).text
    for host in ("a", "b"):
        here.report(host, gpus=msgspec.structs.replace(gpus(2, PROHIBITED, host), sets_modes=True))
    assert "every GPU is in Prohibited mode" in refusal(here, spec(gpu_req="num=1:mode=shared")).text


def test_no_device_anywhere() -> None:
    here = World(make_config(), devices=0)
    assert (
        refusal(here, gpu_spec(1, "ngpus")).text
        == "No host can ever provide ngpus=1: no host has a GPU that may be used"
    )
    assert refusal(here, gpu_spec(1)).text.endswith("ngpus_excl_p=1: no host has a GPU that may be used")


def test_a_counter_that_is_mapped_nowhere_is_refused() -> None:
    mapped = {"ngpus": ("a", "b"), "ngpus_excl_p": ("b",), "ngpus_shared": ("a",)}
    here = world(mapped=mapped)
    here.report("a", gpus=gpus(4, SHARED))
    assert "no host that the job may use has ngpus_excl_t" in refusal(here, gpu_spec(1, "ngpus_excl_t")).text
    assert "no host that the job may use has ngpus_excl_p" in refusal(here, gpu_spec(1, hosts=("a",))).text
    both = spec(res_req="rusage[ngpus_excl_p=1,ngpus_shared=1]")
    assert refusal(here, both).text.startswith(
        "No host can ever provide ngpus_excl_p, ngpus_shared together: no usable"
    )
    ids = here.run(gpu_spec(1), gpu_spec(1, "ngpus_shared"))
    assert [here.job(job_id).allocation.first_host for job_id in ids] == ["b", "a"]  # type: ignore[union-attr]


def test_a_gpu_may_be_given_unasked() -> None:
    here = world(params=Params(gpu_unrequested=GpuUnrequested.AUTO))
    plain, asking = here.run(spec(), gpu_spec(2))
    assert here.job(plain).spec.auto_gpu and not here.job(asking).spec.auto_gpu
    assert len(here.held(plain)) == 1 and len(here.held(asking)) == 2


def test_a_requirement_is_judged_once_for_many_submissions(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counting(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return combine(*args, **options)

    combine = requirement_check.combine
    monkeypatch.setattr(requirement_check, "combine", counting)
    here = world()
    here.submit(*[gpu_spec() for _ in range(50)])
    here.submit(*[gpu_spec() for _ in range(50)])
    assert count == 1
    here.submit(gpu_spec(queue="onb"))
    here.reconfigure(here.config)  # resources may mean something else now
    here.submit(gpu_spec())
    assert count == 3


def test_load_that_came_and_went_still_bounds_what_is_possible() -> None:
    here = world()
    here.report("a", load=load(mem=10.0))
    assert here.submit(spec(res_req="rusage[mem=100G]")) == [1]


def test_an_interactive_job_is_never_run_again() -> None:
    made = world()
    (job_id,) = made.submit(spec(queue="shells", interactive="I"))
    assert made.job(job_id).spec.rerunnable is False
    (other,) = made.submit(spec(queue="batch"))
    assert made.job(other).spec.rerunnable is True


def test_hosts_of_m_that_the_queue_does_not_use_are_passed_over_where_the_site_says_so() -> None:
    config = make_config(
        ("a", "b", "c"),
        (Queue(name="normal", hosts=("b", "c")),),
        params=Params(host_intersection=True),
        host_groups={"all3": ("a", "b", "c")},
    )
    world = World(config)
    (some, group) = world.submit(spec(hosts=("a", "b")), spec(hosts=("all3",)))
    assert [world.job(job).spec.hosts for job in (some, group)] == [("b",), ("b", "c")]
    (other,) = world.submit(spec(hosts=("a",), other_hosts=True))
    assert world.job(other).spec.hosts == ()
    for hosts, why in ((("a",), "a: Host or host group is not used by the queue"), (("z",), "z: Bad host name")):
        with pytest.raises(BadRequest) as refused:
            world.submit(spec(hosts=hosts))
        assert refused.value.text.startswith(why)


def test_m_names_no_more_hosts_than_the_site_allows() -> None:
    world = World(make_config(("a", "b"), params=Params(max_asked_hosts=1)))
    (job,) = world.submit(spec(hosts=("a",), slots=16))
    why = r"-m names 2 hosts; at most 1 are allowed \(LSB_MAX_ASKED_HOSTS_NUMBER\)"
    for attempt in (
        lambda: world.submit(spec(hosts=("a", "b"))),
        lambda: world.order("run", job, user="root", hosts=("a", "b")),
        lambda: world.reserve(name="r", users=("ann",), start=START + 60, end=START + 120, hosts=("a", "b"), slots=1),
    ):
        with pytest.raises(BadRequest, match=why):
            attempt()


def test_jobs_that_name_no_group_are_of_the_sites() -> None:
    groups = {"lab": UserGroup(name="lab", users=("ann",)), "all": UserGroup(name="all", users=("all",))}
    world = World(make_config(params=Params(default_user_group="all"), user_groups=groups))
    (plain, named) = world.submit(spec(), spec(user_group="lab"))
    assert [world.job(job).spec.user_group for job in (plain, named)] == ["all", "lab"]
