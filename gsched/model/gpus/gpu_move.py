"""What has come of moving a suspended job off its GPU."""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText


class GpuMove(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As the job's agent tells."""

    why: AnyText = ""
    """Why it keeps its GPU; empty: it is off it."""
