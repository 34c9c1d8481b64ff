"""Long histories from a seed, with busy days more frequent than disasters (see core_histories for what may happen)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from core_histories import REQUIREMENTS, Histories
from core_world import EXCLUSIVE, spec

from gsched.core.command import Submit
from gsched.model.hosts.host import ComputeMode


def live(
    world: Histories, seed: int, steps: int, more: Sequence[tuple[int, Callable[[random.Random], None]]] = ()
) -> None:
    """All of it happens to `world`. `more`: what else may happen there, with how often it does."""
    choice = random.Random(seed)
    world.begin()
    checks = [
        world.the_ledger_is_right,
        world.what_really_runs_shares_no_gpu,
        world.what_really_runs_shares_no_cpu,
        world.what_runs_on_a_connected_host_is_in_the_ledger,
        world.nothing_is_given_back_before_it_has_ended,
        world.nobody_waits_without_a_reason,
    ]
    hosts, modes = "abc", [EXCLUSIVE, EXCLUSIVE, EXCLUSIVE, *ComputeMode]

    def kinds() -> list[tuple[str, int, str, tuple[str, ...], bool]]:
        return [
            (
                choice.choice(REQUIREMENTS), choice.choice([1, 1, 1, 2, 3]), choice.choice(["", "", "small"]),
                choice.choice([(), (), ("b",)]), choice.random() < 0.2,
            )
            for _ in range(choice.randint(1, 4))
        ]  # fmt: skip

    def restart() -> None:
        aside = choice.randint(1, world.engine.state.next_job_id) if choice.random() < 0.3 else None
        world.restart_master(aside)

    def control() -> None:
        action = choice.choice(["kill", "stop", "resume", "signal", "requeue", "top", "bottom", "run"])
        world.control(action, choice.choice(["ann", "root"]), choice, choice.choice([9, 10, 15, 18, 19]))

    def crowd() -> None:
        """Hosts that are full of jobs of the lower queue, and a job of the higher one."""
        for user, queue, count in (("ann", "normal", 40), ("bob", "high", 1)):
            world.do(Submit(user, "", (spec(queue=queue),) * count))
            world.cycle(1000)
            world.go_on(started=True)
            world.tick(40.0)

    rules = [
        (1, crowd),
        (12, lambda: world.submit(choice.choice(["ann", "bob", "root"]), kinds(), choice.choice(["", "", "t1", "t2"]))),
        (8, lambda: world.submit_more(choice.choice(["ann", "ann", "bob", "root"]), choice, choice.randint(1, 3))),
        (6, lambda: world.modify(choice.choice(["ann", "root"]), choice)),
        (
            2,
            lambda: world.control_queues(
                choice.choice(["open", "activate", "open", "activate", "close", "inactivate"]), "all", "root"
            ),
        ),
        (
            2,
            lambda: world.control_groups(choice.choice(["add", "modify", "remove"]), choice.choice(["ann", "root"]), 2),
        ),
        (2, lambda: world.control_reservations(choice.choice(["add", "add", "modify", "remove"]), choice)),
        (10, lambda: world.cycle(choice.choice([1, 3, 1000]))),
        (
            2,
            lambda: world.cycle_in_turns(
                choice.choice([1, 150]), choice.randint(0, 3), choice.choice(["ann", "bob", "root"])
            ),
        ),
        (10, lambda: world.go_on(choice.random() < 0.5)),
        (10, lambda: world.tick(choice.choice([0.0, 1.0, 5.0, 40.0, 400.0, 4000.0]))),
        (24, control),
        (2, lambda: world.requeue_ended(choice.random() < 0.3, choice.random() < 0.5)),
        (14, lambda: world.work(choice.choice("aabbc"), choice, choice.choice([0, 1, None, -1]))),
        (14, lambda: world.tell(choice.choice("aabbc"), choice, choice.random() < 0.3)),
        (8, lambda: world.obey(choice.choice(hosts), choice.randint(1, 3))),
        (3, lambda: world.fail_to_start(choice.choice("abc"))),
        (
            4,
            lambda: world.report(
                choice.choice(hosts), choice.choice(modes), choice.random() < 0.1, choice.random() < 0.1
            ),
        ),
        (
            9,
            lambda: world.tell_idleness(
                choice.choice(hosts), choice.choice([0.0, 20.0, 25.0, 31.0, 60.0]), choice.random() < 0.9, 1, 5.0
            ),
        ),
        (9, lambda: world.connect(choice.choice(hosts), choice.choice(modes), choice.random() < 0.2)),
        (3, lambda: world.disconnect(choice.choice(hosts))),
        (2, lambda: world.lose(choice.choice("abc"), choice.choice([1.0, 40.0]))),
        (2, lambda: world.control_hosts(choice.choice(["open", "open", "close"]), choice.choice(hosts))),
        (1, lambda: world.reconfigure(choice.choice([0, 0, 1, 2, 3]))),
        (1, restart),
        *((weight, partial(act, choice)) for weight, act in more),
    ]
    for step in range(1, steps + 1):
        choice.choices([act for _, act in rules], [weight for weight, _ in rules])[0]()
        for check in checks:
            check()
        if step % 5 == 0:  # what was lost stays lost; to replay all that happened costs more with each step
            world.events_alone_give_the_same_state()
    world.teardown()
