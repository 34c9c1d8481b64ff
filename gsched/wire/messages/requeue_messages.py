"""What `gsched requeue-me` and the agent of its host say, beside what `glaunch` says (launch_protocol).

agent:   HELLO                      or REFUSED, and that was all
command: ASK
agent:   NOTED                      the attempt's job waits again when it has ended; or REFUSED
"""

from __future__ import annotations

ASK = b"Q"
NOTED = b"q"
