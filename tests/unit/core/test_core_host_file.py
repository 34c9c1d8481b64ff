"""What bsub -hostfile asks for: so many slots on each of the hosts of a file."""

from __future__ import annotations

from core_world import World, make_config, spec

from gsched.dialect.host_lists import read_host_file, requirement_of


def test_each_host_gives_as_many_slots_as_the_file_says() -> None:
    world = World(make_config(hosts=("a", "b", "c")))
    for name in ("b", "c"):
        world.connect(name)
    hosts = read_host_file("hosts.txt", "# best last\nc\na 1\nc 1\n")
    first, second = hosts
    (number,) = world.run(spec(slots=3, res_req=requirement_of(hosts), hosts=(first, second), first_hosts=(first,)))
    job = world.job(number)
    assert job.allocation is not None, world.reasons(number)
    assert [(part.host, part.slots) for part in job.allocation.hosts] == [("c", 2), ("a", 1)]
