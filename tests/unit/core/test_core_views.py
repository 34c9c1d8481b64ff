"""What views tell of hosts and of jobs that wait for what nobody can foresee."""

from __future__ import annotations

import msgspec
import pytest
from core_world import START, World, load, make_config, spec

from gsched.base.coded_text import coded, has_code, sentence
from gsched.core.dispatch.host_queue_views import host_view
from gsched.model.hosts.host import GpuReport, HostConfig
from gsched.model.queues.queue import Queue, Threshold
from gsched.model.queues.window import Window, minute_of_week
from gsched.model.views.view import HostView


def test_what_is_reserved_of_a_load_index_is_told() -> None:
    here = World()
    here.run(spec(res_req="rusage[mem=1000:tmp=5]"), spec(res_req="rusage[mem=500]"))
    view = host_view(
        here.engine.config.hosts["a"], here.engine.config, here.engine.state, here.engine.observations.of("a")
    )
    assert view.reserved == {"mem": 1500.0, "tmp": 5.0}
    assert view.load["mem"] == load().indices["mem"] - 1500.0


def test_a_host_without_a_fence_says_so() -> None:
    here = World()
    report = here.engine.observations.of("a").gpus
    assert report is not None

    def notes() -> tuple[str, ...]:
        seen = here.engine.observations.of("a")
        view = host_view(here.engine.config.hosts["a"], here.engine.config, here.engine.state, seen)
        return tuple(map(sentence, view.notes))

    assert not any("fence" in note for note in notes())
    here.report("a", gpus=msgspec.structs.replace(report, unfenced="the agent does not run as root"))
    said = "jobs are told their GPUs, but could use others (no fence: the agent does not run as root)"
    assert said in notes()
    here.report("a", gpus=GpuReport(unfenced="the agent does not run as root"))
    assert not any("fence" in note for note in notes()), "there is nothing to fence"


def test_a_job_that_waits_for_load_is_not_said_to_wait_for_ever() -> None:
    here = World()
    busy, small, far = here.submit(
        spec(res_req="select[mem>100001]"), spec(res_req="select[ncpus>64]"), spec(res_req="type==any && mem>1T")
    )
    here.cycle()
    planned = here.engine.cycles.planned
    assert sentence(planned[busy].text).startswith("unknown: Job's resource requirements not satisfied (mem>100001")
    assert sentence(planned[small].text).startswith("never: Job's resource requirements not satisfied (ncpus>64")
    assert sentence(planned[far].text).startswith("unknown: ")


CLOSED_NOW = Window((minute_of_week(START) + 60) % 1440, (minute_of_week(START) + 120) % 1440)


@pytest.mark.parametrize(
    ("slots", "window", "busy", "status"),
    [
        (4, False, False, "ok"),
        (4, False, True, "closed_Busy"),
        (1, False, True, "closed_Full"),
        (1, True, True, "closed_Wind"),
    ],
)
def test_the_first_reason_that_closes_a_host_is_its_status(slots: int, window: bool, busy: bool, status: str) -> None:
    thresholds = {"r1m": Threshold(2.0, None)}
    windows = (CLOSED_NOW,) if window else ()
    host = HostConfig(name="a", max_slots=slots, thresholds=thresholds)
    queues = (Queue(name="normal", exclusive=True),)
    here = World(make_config([host], queues=queues))
    (job,) = here.run(spec(exclusive=True))

    def shown() -> str:
        return host_view(
            here.engine.config.hosts["a"], here.engine.config, here.engine.state, here.engine.observations.of("a")
        ).status

    assert shown() == "closed_Excl"
    here.ended(job)
    here.run(spec())
    here.report("a", load=load(r1m=3.0 if busy else 1.0))
    here.reconfigure(make_config([msgspec.structs.replace(host, dispatch_window=windows)], queues=queues))
    assert shown() == status
    here.hosts("close", "a")
    assert shown() == "closed_Adm"
    here.disconnect("a")
    assert shown() == "unreach"
    here.wait(3600)
    assert shown() == "unavail"


def test_a_host_that_is_away_says_so_though_it_is_closed() -> None:
    """Who drains a host and turns it off sees that it is off; who closed it stands below."""
    here = World()

    def view() -> HostView:
        seen = here.engine.observations.of("a")
        return host_view(here.engine.config.hosts["a"], here.engine.config, here.engine.state, seen)

    here.hosts("close", "a", comment="new fans")
    assert (view().status, view().closed_by) == ("closed_Adm", "root")
    here.disconnect("a")
    assert (view().status, view().closed_by, view().comment) == ("unreach", "root", "new fans")
    assert coded("remark.closed_by", "root") in view().notes
    here.hosts("open", "a")
    assert (view().status, view().closed_by) == ("unreach", "")
    assert not any(has_code(note, "remark.closed_by") for note in view().notes)
