"""`grsvdel` (brsvdel): delete advance reservations; jobs that run in them go on."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE, BadRequest, GschedError, Unavailable
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable
from gsched.model.views.room_view import ReservationView

TABLE = OptionTable(
    summary="delete advance reservations; jobs that run in them go on (administrators, and who made them)",
    operands="NAME ...",
    options=(
        *GENERAL,
        Option("f", help="also where jobs run in it, which is always so"),
    ),
    interspersed=True,
    examples=("PROGRAM demo ann#0",),
)


def main(call: Call) -> int:
    """Run `grsvdel`."""
    options = read_options(call, TABLE)
    if not options.rest:
        raise BadRequest(f"{program(call)}: name a reservation (grsvs lists them)")
    code = 0
    with connected(call) as session:
        for name in dict.fromkeys(options.rest):
            try:
                answer = session.client.reservation_control("remove", ReservationView(name=name))
            except Unavailable:
                raise
            except GschedError as problem:
                call.raise_if_cancelled()
                call.error(f"{problem.text}\n")
                code = LSF_FAILURE
            else:
                call.write(f"{answer.text}\n")
    return code
