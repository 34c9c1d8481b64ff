"""`grsvmod` (brsvmod): other times, users or amounts for an advance reservation."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.options.reservation_options import WHAT, read_reservation
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import ONE_KIND, OptionTable, unsupported

TABLE = OptionTable(
    summary="change an advance reservation; what is not named stays (administrators, and who made it)",
    operands="NAME",
    options=(*WHAT, *GENERAL, *unsupported("d", "f", "on", "p", "q", "t", because=ONE_KIND)),
    interspersed=True,
    examples=("PROGRAM -e 23:00 demo", "PROGRAM -n 8 -gpu 0 demo", 'PROGRAM -u "ann bob" ann#0'),
)
_CHANGES = ("n", "gpu", "m", "R", "b", "e", "u", "g", "o", "nosusp")


def main(call: Call) -> int:
    """Run `grsvmod`."""
    options = read_options(call, TABLE)
    if len(options.rest) != 1:
        raise BadRequest(f"{program(call)}: name one reservation (grsvs lists them)")
    if not options.has(*_CHANGES):
        raise BadRequest(f"{program(call)}: nothing is to be changed (-h lists the options)")
    if options.has("m", "R") and not options.has("n", "gpu"):
        raise BadRequest(f"{program(call)}: -m and -R say where; -n SLOTS or -gpu GPUS says how much")
    name = options.rest[0]
    asked = read_reservation(call, options, name, least=0)
    with connected(call) as session:
        slots, gpus = asked.slots, asked.gpus
        if options.has("n", "gpu"):  # both are found anew: what was not named is to stay
            (had,) = session.client.reservations([name])
            slots = slots if options.has("n") else sum(had.slots.values())
            gpus = gpus if options.has("gpu") else sum(had.gpus.values())
            if not slots and not gpus:
                raise BadRequest(f"{program(call)}: nothing would be left of {name}; grsvdel {name} removes it")
        answer = session.client.reservation_control(
            "modify", asked.view, slots=slots, gpus=gpus, hosts=asked.hosts, requirement=asked.requirement
        )
    call.write(f"{answer.text}\n")
    return 0
