"""Functions as jobs on hosts that share no folder with the program that calls them."""

from __future__ import annotations

import sys
import textwrap

import pytest
from netlab import Lab
from netlab_cluster import SERVICE_USER, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

PROGRAM = """
    import os, signal, socket
    import gsched
    from functools import partial
    from gsched.api.executor import CallFailed

    PATIENCE_S = 120

    class Waiting:
        def __init__(self, done=0):
            self.done = done

        def __call__(self):
            print("begun", flush=True)
            while not self.done:
                signal.pause()
            return socket.gethostname(), os.getcwd(), os.path.exists("/var/tmp/calls"), self.done

        def checkpoint(self):
            return Waiting(self.done + 1)

    shared = partial(gsched.Executor, folder="/var/tmp/calls", hosts="h2")
    own = partial(shared, shared=False)
    with own() as executor:
        assert list(executor.map(divmod, range(20), [7] * 20, chunksize=3)) == [divmod(n, 7) for n in range(20)]
        call = executor.submit(Waiting())
        assert next(call.job.output_lines()) == "begun"
        call.job.kill(signal.SIGUSR2)
        print(*call.result(PATIENCE_S))
        print(call.job.id)
        with shared(cwd="/tmp") as other:
            try:
                other.submit(pow, 2, 3).result(PATIENCE_S)
            except CallFailed as error:
                print(error)
"""


def test_calls_and_results_go_through_the_master_and_nobody_else_reads_them(lab: Lab) -> None:
    a, b = hosts = [lab.host(name, own_homes=True) for name in ("h1", "h2")]
    cluster = shared_cluster(lab, hosts, sim_gpus="", slots=4)
    a.path("/tmp/program.py").write_text(textwrap.dedent(PROGRAM))
    done = a.run([sys.executable, "/tmp/program.py"], user="alice", check=True)
    where, job, refused = done.stdout.splitlines()
    assert where == "h2 /tmp False 1"
    assert refused.endswith("shared=False sends calls and results through the master") and "/var/tmp/calls" in refused
    for user, box in (("bob", "127"), (SERVICE_USER, "127"), (SERVICE_USER, "126")):  # a stranger, an administrator
        denied = cluster.run("gread", "-i", box, "-a", "/tmp/got", job, user=user, check=False, cwd="/tmp")
        assert denied.returncode and "User permission denied" in denied.stderr, (user, denied.stderr)
        denied = cluster.run("gpost", "-i", box, "-d", "x", job, user=user, check=False, cwd="/tmp")
        assert denied.returncode and "User permission denied" in denied.stderr, (user, denied.stderr)
    assert cluster.run("gread", "-i", "127", "-a", "got", job, host=b).returncode == 0
