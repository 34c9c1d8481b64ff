"""What `srun` and the agent say of a step, beside what `glaunch` says of any launch (launch_protocol): JSON in frames.

command: REQUEST ... STEP GO        STEP: a StepRequest
agent:   BUSY ...                   while it waits for other steps of the job
agent:   STEPPED COUNT              STEPPED: a StepGranted; then as for any launch
agent:   CANCELLED               somebody has ended the step
command: WINDOW                     rows and columns of the terminal, in decimal digits, a blank between
"""

from __future__ import annotations

import msgspec

from gsched.model.jobs.job_step import MOST_PROGRAMS, StepRequest
from gsched.wire.messages.frames import ProtocolError

STEP = b"T"
WINDOW = b"W"
BUSY = b"b"
STEPPED = b"s"
CANCELLED = b"c"


def decode_request(blob: bytes) -> StepRequest:
    """Raises ProtocolError."""
    try:
        found = msgspec.json.decode(blob, type=StepRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ProtocolError("a step that cannot be read") from None
    numbers = (found.shape.tasks, found.shape.nodes, found.shape.cpus, found.shape.per_node, found.shape.relative)
    asked = (found.shape.gpus, found.shape.gpus_per_node, found.shape.gpus_per_task)
    if not all(0 <= (each or 0) < 1 << 31 for each in (*numbers, *asked)) or len(found.programs) > MOST_PROGRAMS:
        raise ProtocolError("numbers of a step that make no sense")
    return found
