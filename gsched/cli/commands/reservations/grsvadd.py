"""`grsvadd` (brsvadd): reserve slots and GPUs for users, from one time to another."""

from __future__ import annotations

import msgspec

from gsched.base.errors import BadRequest
from gsched.cli.options.reservation_options import WHAT, read_reservation
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import ONE_KIND, Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="reserve slots and GPUs for users, from one time to another (administrators, and whom lsb.resources lets)",
    operands="",
    options=(
        *WHAT,
        Option("unit", "slot", "what -n counts", fixed=frozenset({"slot"})),
        Option("N", "NAME", "what it is called; without it YOU#NUMBER", "-N demo"),
        *GENERAL,
        *unsupported("t", because="a reservation is for one time: -b and -e"),
        *unsupported("c", "d", "E", "Et", "f", "p", "q", "s", because=ONE_KIND),
    ),
    examples=(
        "PROGRAM -n 16 -m gpu01 -u ann -b 18:00 -e 22:00",
        'PROGRAM -N demo -n 8 -gpu 8 -R "select[ngpus>=4]" -u "ann bob" -b 24:9:00 -e 24:18:00',
    ),
)


def main(call: Call) -> int:
    """Run `grsvadd`."""
    options = read_options(call, TABLE)
    if options.rest:
        raise BadRequest(f"{program(call)}: '{options.rest[0]}' belongs to no option (a name is given with -N)")
    for name, meaning in (("b", "when it begins"), ("e", "when it ends")):
        if not options.has(name):
            raise BadRequest(f"{program(call)}: -{name} TIME says {meaning}")
    if not options.has("n", "gpu"):
        raise BadRequest(f"{program(call)}: -n SLOTS or -gpu GPUS says how much is reserved")
    asked = read_reservation(call, options, options.last("N"))
    view = asked.view if asked.view.users else msgspec.structs.replace(asked.view, users=(call.user,))
    with connected(call) as session:
        answer = session.client.reservation_control(
            "add", view, slots=asked.slots, gpus=asked.gpus, hosts=asked.hosts, requirement=asked.requirement
        )
    call.write(f"{answer.text}\n")
    return 0
