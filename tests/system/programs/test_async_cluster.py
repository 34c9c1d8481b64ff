"""`gsched.AsyncCluster` against real daemons: the words of Cluster in coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from live_cluster import PATIENCE_S
from live_cluster import Cluster as Live

import gsched
from gsched import api

Run = Callable[[Callable[[gsched.AsyncCluster], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(live: Live) -> Run:
    """Runs a coroutine with a connected AsyncCluster."""

    def runs(main: Callable[[gsched.AsyncCluster], Coroutine[Any, Any, None]]) -> None:
        async def connected() -> None:
            async with gsched.AsyncCluster(live.conf) as cluster, asyncio.timeout(PATIENCE_S):
                await main(cluster)

        asyncio.run(connected())

    return runs


def test_jobs_are_submitted_waited_for_and_asked_about(run: Run, tmp_path: Path) -> None:
    async def main(cluster: gsched.AsyncCluster) -> None:
        job = await cluster.submit("echo said; exit 3", name="fails", cwd=tmp_path)
        end = await job
        assert (end.state, end.exit_code, await job.state()) == ("EXIT", 3, "EXIT")
        assert await job.output() == "said\n"
        with pytest.raises(gsched.JobFailed, match=r"\(fails\) .* ended with exit code 3"):
            await job.result()
        assert job == cluster.job(job.id) and repr(job) == f"<gsched.AsyncJob {job.id}>"
        assert (await job.view()).spec.name == "fails"
        assert "job_finished" in {each.kind for each in await job.history()}
        assert [view.job_id async for view in cluster.history(ids=job)] == [job.id]
        held = await cluster.submit("sleep 600", hold=True, gpus=1)
        assert await held.reasons() and await held.reasons_at() is None
        assert (await cluster.explain(held)).waits_for == "hold"
        other = await cluster.submit("sleep 600")
        assert (await cluster.why_not(held, other)).rule == "hold"
        assert [view.job_id async for view in cluster.jobs(states="PSUSP")] == [held.id]
        assert await cluster.kill([held, other]) == {}
        assert [each.state for each in await cluster.wait([held, other])] == ["EXIT", "EXIT"]
        assert (await cluster.dry_run("true", gpus=1)).explanation.starts_now
        assert len(await cluster.hosts()) == 1 and "normal" in {queue.name for queue in await cluster.queues()}
        with pytest.raises(api.NotFound, match="nowhere"):
            await cluster.hosts("nowhere")

    run(main)


def test_control_of_one_job(run: Run, live: Live) -> None:
    async def main(cluster: gsched.AsyncCluster) -> None:
        job = await cluster.submit("sleep 600")
        await asyncio.to_thread(live.starts, job.id)
        await job.stop()
        assert await job.state() == "USUSP"
        await job.resume()
        await job.kill(9)
        assert (await job.wait()).exit_code == 128 + 9
        with pytest.raises(api.Conflict, match="already finished"):
            await job.stop()
        assert set(await cluster.stop(job)) == set(await cluster.resume(job)) == {job.id}

    run(main)


def test_ends_come_as_they_happen(run: Run) -> None:
    async def main(cluster: gsched.AsyncCluster) -> None:
        slow = await cluster.submit("sleep 600", hold=True)
        quick = await cluster.submit_many(["true", "true"])
        found = []
        with pytest.raises(TimeoutError, match=f"jobs {slow} have not finished within 1 s"):
            async for job, end in cluster.as_completed([slow, *quick], timeout=1):
                found.append((job, end.state))
                if len(found) == 2:
                    await asyncio.sleep(1)
        assert sorted(found, key=lambda each: each[0].id) == [(job, "DONE") for job in quick]
        with pytest.raises(TimeoutError, match=f"jobs {slow} have not finished within 0.01 s"):
            await slow.wait(0.01)
        await slow.kill()
        assert [(job, end.state) async for job, end in cluster.as_completed(slow)] == [(slow, "EXIT")]
        with pytest.raises(api.NotFound, match="4711"):
            await cluster.job(4711).wait()

    run(main)


def test_thousands_of_waits_cost_no_thread_and_may_be_given_up(run: Run) -> None:
    async def main(cluster: gsched.AsyncCluster) -> None:
        array = await cluster.submit("true", name="many", array=1000, hold=True)
        elements = [cluster.job(view.job_id) for view in await array.elements()]
        await asyncio.wait([asyncio.ensure_future(elements[0].wait(0))])
        before = threading.active_count()
        waits = [asyncio.create_task(job.wait()) for job in elements for _ in range(3)]
        await asyncio.sleep(0)
        assert threading.active_count() < before + 20  # of gRPC, whatever the number of waits
        for each in waits[::2]:
            each.cancel()
        await array.kill()
        ends = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends[::2])
        assert {end.state for end in ends[1::2]} == {"EXIT"}  # type: ignore[union-attr]

    run(main)


def test_output_is_followed_from_the_start_of_a_job_to_its_end(run: Run, tmp_path: Path) -> None:
    async def main(cluster: gsched.AsyncCluster) -> None:
        script = "echo first; until [ -e go ]; do sleep 0.05; done; echo wrong >&2; printf 'second\\n\\nlast'"
        job = await cluster.submit(script, cwd=tmp_path, hold=True)
        lines = job.output_lines()
        first = asyncio.create_task(anext(lines))
        await asyncio.sleep(0)
        assert not first.done()
        await job.resume()
        assert await first == "first"
        (tmp_path / "go").touch()
        assert [line async for line in lines] == ["second", "", "last"]
        assert [line async for line in job.output_lines()] == ["first", "second", "", "last"]
        never = await cluster.submit("echo never", hold=True)
        told = asyncio.create_task(anext(never.output_lines(), "nothing"))
        await never.kill()
        assert await told == "nothing"
        array = await cluster.submit("true", name="two", array=2)
        with pytest.raises(api.Conflict, match="is an array"):
            await anext(array.output_lines())

    run(main)


def test_events_are_followed_and_broken_off(run: Run, live: Live) -> None:
    async def main(cluster: gsched.AsyncCluster) -> None:
        before = set(threading.enumerate())
        last = max([event.seq async for event in cluster.events(follow=False)])
        job = await cluster.submit("true", hold=True)
        events = cluster.events(after=last, jobs=job)
        assert (await anext(events)).kind == "job_submitted"
        await asyncio.to_thread(live.kill, "master")
        await asyncio.to_thread(live.up)
        await job.kill()
        async for event in events:
            if event.kind == "job_finished":
                break
        stream = {thread for thread in threading.enumerate() if thread.name == "gsched-async-stream"} - before
        assert stream
        await events.aclose()
        for thread in stream:
            await asyncio.to_thread(thread.join, PATIENCE_S)
            assert not thread.is_alive()

    run(main)
