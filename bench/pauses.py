"""How long one user's largest requests let another one wait: commands over 100,000 pending jobs, long conditions, long
patterns, large submissions.

While one process carries the request out, this one submits a job and asks a short question in turn, and notes the
longest that either took. The host is closed, so that nothing starts. Goal: 50 ms.

    python bench/pauses.py [--jobs 100000] [--only NAME,NAME]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
from private_cluster import BIN, client_of, private_cluster, report, submission

from gsched.base.errors import GschedError
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobFilter, Submission
from gsched.wire.calls.client import Client
from gsched.wire.messages.control_action import ControlAction

BATCH = 1_000
ALL = JobFilter()
CYCLE_S = 5.0
"""More than the scheduling cycle after it takes."""
NAMES = 440
"""Terms of a condition of 4,094 characters."""


def main() -> int:
    """Print the figures; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--ask", default="")
    args = parser.parse_args()
    if args.ask:
        ask(args.ask, args.jobs)
        return 0
    chosen = [each for each in args.only.split(",") if each] or list(REQUESTS)
    figures: dict[str, float] = {}
    with private_cluster("--sim-gpus", "8:exclusive_process") as environment, client_of(environment) as client:
        client.host_control("close", [host.name for host in client.hosts()])
        fill(client, args.jobs)
        figures |= _measure(client, environment, "nothing", [sys.executable, "-c", "import time; time.sleep(5)"])
        for name in chosen:
            words = [sys.executable, __file__, "--ask", name, "--jobs", str(args.jobs)]
            figures |= _measure(client, environment, name, words)
            figures[f"{name}_again_s"] = 0.0
            if name == "kill":
                fill(client, args.jobs)
        figures = {name: value for name, value in figures.items() if not name.endswith("_again_s")}
        start = time.perf_counter()
        subprocess.run([BIN / "gjobs", "-sum"], env=environment, check=True, stdout=subprocess.DEVNULL)
        figures["gjobs_sum_s"] = time.perf_counter() - start
        print(f"gjobs -sum: {figures['gjobs_sum_s']:.2f} s")
    report("pauses", figures)
    return 0


def _measure(client: Client, environment: dict[str, str], name: str, words: list[str]) -> dict[str, float]:
    """The longest wait for a submission and for a short question while the process runs, in ms, and how long it ran."""
    submits, questions = [0.0], [0.0]
    start = time.perf_counter()
    with subprocess.Popen(words, env=environment) as process:
        while process.poll() is None:
            submits.append(_took_ms(lambda: client.submit(probe())))
            questions.append(_took_ms(client.cluster))
            time.sleep(0.002)
    took = time.perf_counter() - start
    print(
        f"{name:<12} {took:7.2f} s; the longest that a submission waited {max(submits):8.1f} ms, "
        f"a short question {max(questions):8.1f} ms",
        flush=True,
    )
    return {f"{name}_s": took, f"{name}_submit_ms": max(submits), f"{name}_question_ms": max(questions)}


def _took_ms(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def fill(client: Client, jobs: int) -> None:
    """Let so many jobs wait, each with a name of its own."""
    for start in range(0, jobs, BATCH):
        client.submit_many([named(number) for number in range(start, min(start + BATCH, jobs))])


def named(number: int) -> Submission:
    """A job with a name and a command of its own, of one of 50 requirements."""
    plain = submission(f"./train.sh --seed {number}")
    kind = number % 50
    requirement = f"select[mem>{1 + kind // 8}] rusage[mem={1 + kind // 8},ngpus_excl_p={1 + kind % 8}]"
    return _changed(plain, name=f"sweep-{number}", res_req=requirement)


def probe() -> Submission:
    """What the other user submits: it is another project's, and is left alone."""
    return _changed(submission("true"), name="probe")


def _changed(plain: Submission, **changes: object) -> Submission:
    spec = msgspec.structs.replace(plain.spec, **changes)
    return Submission(spec=spec, environment=plain.environment)


def ask(name: str, jobs: int) -> None:
    """Carry one of the requests out."""
    with client_of(dict(os.environ)) as client:
        try:
            REQUESTS[name](client, jobs)
        except GschedError as error:
            print(f"{name}: refused: {error.text[:150]}", flush=True)


def _newest(client: Client, jobs: int, count: int) -> list[int]:
    """Numbers of jobs in the middle of the backlog."""
    first = jobs // 2
    return list(range(first, first + min(count, jobs // 2)))


def _submit(client: Client, jobs: int, **changes: object) -> None:
    client.submit(_changed(submission("true"), **changes))


def _condition(client: Client, jobs: int) -> None:
    _submit(client, jobs, dependency=" && ".join(['done("sweep-77")'] * (4094 // 20)))


def _same_name(client: Client, jobs: int) -> None:
    _submit(client, jobs, dependency="&&".join(["sweep-77"] * (4000 // 10)))


def _many_names(client: Client, jobs: int) -> None:
    _submit(client, jobs, dependency="&&".join([f"sweep-{number}" for number in range(1000, 1000 + 340)]))


def _stars(client: Client, jobs: int) -> None:
    _submit(client, jobs, dependency="&&".join([f"s*w*p*-{number}*" for number in range(10, 99)] * 3))


def _numbers(client: Client, jobs: int) -> None:
    first = jobs // 2
    _submit(client, jobs, dependency="||".join(f"done({number})" for number in range(first, first + 300)))


def _long_pattern(client: Client, jobs: int) -> None:
    client.control("stop", wanted=JobFilter(name="*a" * (1 << 19)))


def _pattern(client: Client, jobs: int) -> None:
    client.control("stop", wanted=JobFilter(name="*s*w*e*e*p*?*9*9*9*9*9*z"))


def _bulk(client: Client, jobs: int) -> None:
    client.submit_many([named(10_000_000 + number) for number in range(10_000)])


def _bulk_alike(client: Client, jobs: int) -> None:
    client.submit_many([submission("./alike.sh")] * 10_000)


def _kinds(client: Client, jobs: int) -> None:
    """Each wants something else: the next cycle looks at all of them for the first time."""
    many = [
        _changed(submission("./kinds.sh"), res_req=f"select[mem>{number}] rusage[mem={5_000 + number}]")
        for number in range(2_000)
    ]
    client.submit_many(many)
    time.sleep(CYCLE_S)


def _array(client: Client, jobs: int) -> None:
    _submit(client, jobs, name="many", indices="1-100000")


def _hosts(client: Client, jobs: int) -> None:
    _submit(client, jobs, hosts=tuple(f"host{number}" for number in range(10_000)))


def _requirement(client: Client, jobs: int) -> None:
    _submit(client, jobs, res_req="select[" + "||".join(f"mem>{number}" for number in range(400)) + "]")


def _listings(client: Client, jobs: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: sum(1 for _ in client.jobs(JobFilter(user="all", finished=True))), range(4)))


def _forecast(client: Client, jobs: int) -> None:
    for number in range(20):
        client.forecast(_changed(submission("true"), res_req=f"select[gpu_mtotal{number % 8}>1]").spec)


def _modify(client: Client, jobs: int) -> None:
    spec = JobSpec(command="", user="", queue="", run_limit_s=3600)
    client.modify((), spec, ("run_limit_s",), ALL)


REQUESTS: dict[str, Callable[[Client, int], object]] = {
    "condition": _condition,
    "same_name": _same_name,
    "many_names": _many_names,
    "stars": _stars,
    "numbers": _numbers,
    "long_pattern": _long_pattern,
    "pattern": _pattern,
    "hosts": _hosts,
    "requirement": _requirement,
    "bulk": _bulk,
    "bulk_alike": _bulk_alike,
    "kinds": _kinds,
    "array": _array,
    "listings": _listings,
    "top": lambda client, jobs: client.control("top", _newest(client, jobs, 1_000)),
    "stop": lambda client, jobs: client.control("stop", wanted=ALL),
    "resume": lambda client, jobs: client.control("resume", wanted=ALL),
    "post": lambda client, jobs: client.control(
        ControlAction(action="post", text="a note"), _newest(client, jobs, 50_000)
    ),
    "forecast": _forecast,
    "modify": _modify,
    "kill": lambda client, jobs: client.control("kill", wanted=ALL),
}


if __name__ == "__main__":
    sys.exit(main())
