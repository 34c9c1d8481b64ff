"""A process that plays one scenario: `python -m gsched.sim.scenario_process`, started by gsched.sim.scenarios alone.

The scenario comes on standard input and the tables, or the error, go to standard output, both pickled.
"""

from __future__ import annotations

import pickle
import sys

from gsched.base.errors import GschedError
from gsched.sim.scenarios import play


def main() -> int:
    """Play what standard input holds."""
    scenario, workload, skip_refused = pickle.loads(sys.stdin.buffer.read())
    found: object
    try:
        found = play(scenario, workload, skip_refused=skip_refused)
    except GschedError as error:
        found = error
    sys.stdout.buffer.write(pickle.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
