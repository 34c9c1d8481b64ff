"""How commands that list GPUs write their table: as text, or with -json as records."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.errors import BadRequest
from gsched.cli.render.hosts.gpu_tables import GpuRow, GpuTable, json_records, render_table
from gsched.cli.render.text.output_formats import json_text
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.dialect.options import Parsed


def write_gpu_table(
    call: Call, options: Parsed, table: GpuTable, rows: Iterable[tuple[str, GpuRow]], *, command: str
) -> None:
    """Write it; `command` is LSF's name. -json stands without -noheader. Raises BadRequest."""
    header = not options.has("noheader")
    if not options.has("json"):
        call.write(render_table(table, rows, header=header, wide=options.has("w")))
        return
    if not header:
        raise BadRequest(f"{program(call)}: -json and -noheader cannot be given together")
    call.write(json_text(json_records(table, rows), command=command, counted="GPUS"))
