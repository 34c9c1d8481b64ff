#!/usr/bin/python3
"""Stand-ins for the launchers of PyTorch, DeepSpeed, Horovod, MPI and others, by the name that this is called with.

Each takes the options of the real one that gsched gives, refuses all others, and starts its ranks with the variables
that the real one sets. Tests with the real ones: test_launch_clients.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shlex
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # it is called by a link, from anywhere
rendezvous = import_module("stand_in_all_reduce")


def local_ranks(first: int, count: int, size: int, variables: dict[str, Any], command: list[str]) -> int:
    """Start the ranks of this host; when one fails the others are ended. The exit code."""
    ranks = []
    for local in range(count):
        own = {"RANK": first + local, "LOCAL_RANK": local, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": count, **variables}
        ranks.append(subprocess.Popen(command, env={**os.environ, **{name: str(own[name]) for name in own}}))
    return together(ranks)


def together(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all; end the others when one has failed."""
    codes = []
    for _ in ranks:
        pid, status = os.wait()
        codes.append(os.waitstatus_to_exitcode(status))
        for rank in ranks:
            if rank.pid == pid:
                rank.returncode = codes[-1]
            elif codes[-1] and rank.returncode is None:
                rank.terminate()
    return next((1 for code in codes if code), 0)


def torchrun(words: list[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--nproc-per-node", "--node-rank", "--nnodes", "--master-port"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--local-addr", "--master-addr"):
        parser.add_argument(name, required=True)
    parser.add_argument("--no-python", action="store_true", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    place = {"MASTER_ADDR": given.master_addr, "MASTER_PORT": given.master_port, "GROUP_RANK": given.node_rank}
    each = given.nproc_per_node
    return local_ranks(given.node_rank * each, each, given.nnodes * each, place, given.command)


def accelerate(words: list[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    if "--num_processes=1" in words:  # one process it executes itself, and takes it for an error to ask for more GPUs
        return subprocess.run(words[words.index("--no_python") + 1 :]).returncode if "--multi_gpu" not in words else 1
    for name in ("--num_machines", "--num_processes", "--machine_rank", "--main_process_port"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--main_process_ip", "--mixed_precision", "--dynamo_backend"):
        parser.add_argument(name, required=True)
    for name in ("--multi_gpu", "--no_python"):
        parser.add_argument(name, action="store_true", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    if words[0] != "launch":
        return 2
    given = parser.parse_args(words[1:])
    place = {"MASTER_ADDR": given.main_process_ip, "MASTER_PORT": given.main_process_port}
    each = given.num_processes // given.num_machines
    return local_ranks(given.machine_rank * each, each, given.num_processes, place, given.command)


def python(words: list[str]) -> int:
    """`python -m deepspeed.launcher.launch`: it gives each rank GPU numbers of its own making."""
    if words[:1] == ["-c"] and "ray.init" in words[1]:
        return 0  # all of Ray's hosts are there
    if words[:1] != ["-m"]:
        os.execv(sys.executable, ["python", *words])
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-m", choices=["deepspeed.launcher.launch"], required=True)
    parser.add_argument("--world_info", required=True)
    for name in ("--node_rank", "--master_port"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--master_addr", required=True)
    for name in ("--no_local_rank", "--no_python"):
        parser.add_argument(name, action="store_true", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    world = list(json.loads(base64.urlsafe_b64decode(given.world_info)).values())
    first = sum(map(len, world[: given.node_rank]))
    own = world[given.node_rank]
    place = {"MASTER_ADDR": given.master_addr, "MASTER_PORT": given.master_port}
    place["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, own))
    return local_ranks(first, len(own), sum(map(len, world)), place, given.command)


def horovodrun(words: list[str]) -> int:
    """Ranks on other hosts by ssh, as the real one with Gloo does it; it holds the place where they meet."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-np", type=int, required=True)
    parser.add_argument("-H", required=True)
    parser.add_argument("--disable-cache", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    listening = rendezvous.listen(0)
    threading.Thread(target=rendezvous.serve, args=(listening, given.np), daemon=True).start()
    hosts = [(name, int(count)) for name, _, count in (each.partition(":") for each in given.H.split(","))]
    ranks, rank = [], 0
    for node, (host, count) in enumerate(hosts):
        for local in range(count):
            variables = {"HOROVOD_RANK": rank, "HOROVOD_SIZE": given.np, "HOROVOD_LOCAL_RANK": local}
            variables |= {"HOROVOD_LOCAL_SIZE": count, "HOROVOD_CROSS_RANK": node, "HOROVOD_CROSS_SIZE": len(hosts)}
            variables |= {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_GLOO_RENDEZVOUS_PORT": listening.getsockname()[1]}
            variables |= {"HOROVOD_GLOO_RENDEZVOUS_ADDR": hosts[0][0]}
            line = ["env", *(f"{name}={value}" for name, value in variables.items()), *given.command]
            ssh = ["ssh", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", host]
            folder = f"cd {shlex.quote(os.getcwd())} > /dev/null 2>&1 ; {shlex.join(line)}"
            ranks.append(subprocess.Popen(line if node == 0 else [*ssh, folder], stdin=subprocess.DEVNULL))
            rank += 1
    return together(ranks)


def mpirun(words: list[str]) -> int:
    """As Open MPI's, which starts a process for each line of its host file, or where its rank file says."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("-x", action="append")
    parser.add_argument("-rf")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    hosts = Path(os.environ["OMPI_MCA_orte_default_hostfile"]).read_text().split()  # noqa: SIM112 - Open MPI's
    if given.rf:
        lines = [line.split()[1].split("=") for line in Path(given.rf).read_text().splitlines()]
        hosts = [host for _, host in sorted((int(rank), host) for rank, host in lines)]
    launcher = os.environ["OMPI_MCA_plm_rsh_agent"]  # noqa: SIM112 - Open MPI's
    ranks = []
    for rank, host in enumerate(hosts[: given.n]):
        place = [f"OMPI_COMM_WORLD_RANK={rank}", f"OMPI_COMM_WORLD_SIZE={given.n}"]
        line = shlex.join(["env", *place, *given.command])
        ranks.append(subprocess.Popen([launcher, host, line], stdin=subprocess.DEVNULL))
    return together(ranks)


def ray(words: list[str]) -> int:
    """`ray start --block` stays."""
    if words[0] != "start" or words[-1] != "--block":
        return 2
    return subprocess.run(["sleep", "1000.6"]).returncode


def py_spy(words: list[str]) -> int:
    """`py-spy record`: it leaves a file, and runs the program."""
    given = words.index("--output")
    Path(words[given + 1]).write_text("<svg/>")
    return subprocess.run(words[words.index("--") + 1 :]).returncode


if __name__ == "__main__":
    sys.exit(globals()[Path(sys.argv[0]).name.replace("-", "_")](sys.argv[1:]))
