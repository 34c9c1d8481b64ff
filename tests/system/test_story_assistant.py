"""An assistant's program and `gsched mcp`, which it starts, with real daemons and the protocol package's own client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from live_cluster import BIN, PATIENCE_S
from live_cluster import Cluster as Live
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitRequestParams, ElicitResult

from gsched.model.views.view import JobFilter

READING = {
    *(
        "list_jobs",
        "show_job",
        "explain_job",
        "compare_jobs",
        "dry_run_job",
        "list_hosts",
        "list_queues",
        "job_history",
        "past_jobs",
        "job_efficiency",
    ),
    "job_output",
}
ONE = ["-R", "rusage[ngpus_excl_p=1]"]


class Assistant:
    """What an assistant's program does with the server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}

    async def ask(self, tool: str, **words: Any) -> Any:
        """The structured answer, or the text."""
        found = await self.client.call_tool(tool, words)
        text = "".join(part.text for part in found.content)
        assert not found.is_error, text
        structured = found.structured_content
        if structured is None:
            return text
        return structured.get("result", structured) if set(structured) == {"result"} else structured

    async def refused(self, tool: str, **words: Any) -> str:
        found = await self.client.call_tool(tool, words)
        assert found.is_error
        text = "".join(part.text for part in found.content)
        assert "Traceback" not in text
        return text


@pytest.fixture(scope="module")
def live(module_cluster: Callable[..., Live]) -> Live:
    return module_cluster("--sim-gpus", "2:exclusive_process")


def numbers(live: Live) -> set[int]:
    """Of all jobs that are known."""
    with live.client() as client:
        return {job.job_id for job in client.jobs(JobFilter(user="all", finished=True))}


@asynccontextmanager
async def assistant(live: Live, *words: str, **options: Any) -> AsyncIterator[Assistant]:
    program = StdioServerParameters(command=str(BIN / "gsched"), args=["mcp", *words], env=live.env)
    with anyio.fail_after(PATIENCE_S):
        async with Client(stdio_client(program), **options) as client:
            yield Assistant(client)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    anyio.run(scenario)


def test_it_only_reads_unless_more_is_allowed(live: Live) -> None:
    async def scenario() -> None:
        async with assistant(live) as reader:
            assert await reader.tools() == READING
        async with assistant(live, "--allow", "kill") as killer:
            assert await killer.tools() == READING | {"kill_jobs", "confirm_action"}

    play(scenario)


def test_it_asks_what_would_become_of_a_job_and_submits_none(live: Live) -> None:
    before = numbers(live)

    async def scenario() -> None:
        async with assistant(live) as reader:
            told = await reader.ask("dry_run_job", command="./train.sh", options=ONE)
            assert (told["start"]["now"], told["queue"]) == (True, "normal")
            assert [part["host"] for part in told["parts"]] == [live.host]
            too_much = ["-R", "rusage[ngpus_excl_p=3]"]
            assert "Job not submitted" in await reader.refused("dry_run_job", command="true", options=too_much)
            assert "-K" in await reader.refused("dry_run_job", command="true", options=["-K"])
            assert "no command" in await reader.refused("dry_run_job", command="-q short")
            assert "no option" in await reader.refused("dry_run_job", command="true", options=["rm", "x"])

    play(scenario)
    assert numbers(live) == before


@pytest.mark.smoke
def test_it_sees_who_holds_gpus_and_why_a_job_waits(live: Live) -> None:
    holder = live.submit("-R", "rusage[ngpus_excl_p=2]", "-J", "holder", "sleep 600")
    live.starts(holder)
    waiter = live.submit(*ONE, "sleep 600")
    live.why_pending(waiter)

    async def scenario() -> None:
        async with assistant(live) as reader:
            (host,) = (await reader.ask("list_hosts"))["hosts"]
            assert [gpu["jobs"] for gpu in host["gpus"]] == [[str(holder)]] * 2
            found = await reader.ask("list_jobs")
            jobs = {job["job"]: job for job in found["jobs"]}
            assert jobs[str(holder)]["where"] == [{"host": live.host, "slots": 1, "gpus": [0, 1]}]
            assert "ngpus_excl_p" in jobs[str(waiter)]["waits_because"][0] and not found["more"]
            short = await reader.ask("list_jobs", limit=1, states=["RUN"])
            assert [job["name"] for job in short["jobs"]] == ["holder"]
            assert f"Job <{waiter}>" in await reader.ask("show_job", job=str(waiter))
            told = await reader.ask("explain_job", job=str(waiter))
            assert [each["job_id"] for each in told["hosts"][0]["hosts"][0]["holders"]] == [str(holder)]
            compared = await reader.ask("compare_jobs", waiting=str(waiter), other=str(holder))
            assert (compared["rule"], compared["other"]["job_id"]) == ("started_before", str(holder))
            assert {"normal", "short"} <= {each["queue"] for each in (await reader.ask("list_queues"))["queues"]}

    play(scenario)
    live.end_jobs()


def test_it_learns_what_came_of_a_job(live: Live) -> None:
    job = live.submit(*ONE, "echo trained; exit 3")
    live.wait(job)

    async def scenario() -> None:
        async with assistant(live) as reader:
            assert await reader.ask("job_output", job=str(job)) == "trained\n"
            assert f"Job <{job}>" in await reader.ask("job_history", job=str(job))
            (record,) = (await reader.ask("job_efficiency", job=str(job)))["RECORDS"]
            assert record["STAT"] == "EXIT"
            past = {each["job"]: each for each in (await reader.ask("past_jobs", states=["EXIT"]))["jobs"]}
            assert past[str(job)]["exit_code"] == 3

    play(scenario)


def test_a_submission_is_shown_first_and_made_once_when_it_is_confirmed(live: Live) -> None:
    before = numbers(live)

    async def scenario() -> None:
        async with assistant(live, "--allow", "submit") as writer:
            shown = await writer.ask("submit_job", command="echo it is mine", options=ONE)
            assert "gsub -R 'rusage[ngpus_excl_p=1]' 'echo it is mine'" in shown["preview"]
            assert numbers(live) == before, "only shown"
            said = [await writer.ask("confirm_action", confirmation=shown["confirmation"]) for _ in range(2)]
            assert said[0] == said[1]
            assert "confirms nothing" in await writer.refused("confirm_action", confirmation="0123")

    play(scenario)
    (made,) = numbers(live) - before
    live.wait(made)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_person_is_asked_where_the_program_can(live: Live, mode: str) -> None:
    job = live.submit("sleep 600")
    asked: list[str] = []

    async def scenario() -> None:
        async def answers(_: Any, question: ElicitRequestParams) -> ElicitResult:
            asked.append(question.message)
            if len(asked) == 1:
                return ElicitResult(action="decline")
            return ElicitResult(action="accept", content={"agreed": len(asked) > 2})

        async with assistant(live, "--allow", "kill", elicitation_callback=answers, mode=mode) as writer:
            for _ in range(2):
                shown = await writer.ask("kill_jobs", jobs=[str(job)])
                await writer.refused("confirm_action", confirmation=shown["confirmation"])
                (known,) = (await writer.ask("list_jobs", states=["RUN", "PEND"]))["jobs"]
                assert known["job"] == str(job), "nothing was done"
            shown = await writer.ask("kill_jobs", jobs=[str(job)])
            assert "terminated" in await writer.ask("confirm_action", confirmation=shown["confirmation"])

    play(scenario)
    assert len(asked) == 3 and all(f"gkill {job}" in text for text in asked)
    live.wait(job)


def test_what_it_cannot_have_is_refused_in_one_line(live: Live) -> None:
    job = live.submit("true")
    live.wait(job)

    async def scenario() -> None:
        async with assistant(live, "--allow", "submit,kill") as writer:
            for tool, words, said in (
                ("submit_job", {"command": "x", "options": ["-R", "rusage[ngpus_excl_p=99]"]}, "can ever provide"),
                ("submit_job", {"command": "x", "options": ["-R", "select["]}, "select"),
                ("submit_job", {"command": "x", "options": ["-I"]}, "for the command line"),
                ("submit_job", {"command": "x", "options": ["-K"]}, "for the command line"),
                ("submit_job", {"command": "x", "options": ["-q", "nowhere"]}, "nowhere"),
                ("submit_job", {"command": " "}, "no command"),
                ("submit_job", {"command": "-x"}, "no command"),
                ("kill_jobs", {"jobs": []}, "1 to 100"),
                ("kill_jobs", {"jobs": ["0"]}, "0"),
                ("kill_jobs", {"jobs": ["999999"]}, "not found"),
                ("kill_jobs", {"jobs": [str(job)], "signal": "; rm"}, "no signal"),
                ("explain_job", {"job": str(job)}, "does not wait"),
                ("show_job", {"job": "-h"}, "Illegal job ID"),
                ("show_job", {"job": "999999"}, "not found"),
                ("list_jobs", {"limit": 0}, "1 to 500"),
                ("list_jobs", {"states": ["RUNNING"]}, "states"),
                ("list_hosts", {"names": ["nowhere"]}, "nowhere"),
                ("job_output", {"job": str(job), "last_bytes": 10**9}, "last_bytes"),
            ):
                assert said in await writer.refused(tool, **words), (tool, words)

    play(scenario)


def test_nothing_but_the_protocol_is_written(live: Live) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    done = subprocess.run(
        [str(BIN / "gsched"), "mcp"],
        input=json.dumps(hello) + "\n",
        env=live.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["result"]["serverInfo"]["name"] == "gsched"
    assert done.stderr == ""


def test_a_wrong_word_is_one_line(live: Live) -> None:
    done = subprocess.run(
        [str(BIN / "gsched"), "mcp", "--allow", "everything"],
        env=live.env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr == "gsched: --allow: 'everything' is none of submit, kill\n"
