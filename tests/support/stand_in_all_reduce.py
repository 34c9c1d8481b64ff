"""A stand-in for a training program: an all-reduce over sockets that reads the variables of torch and Horovod.

    python3 stand_in_all_reduce.py [then stay | then fail-once FILE]

Each rank gives its number plus one, and prints what it was told and the sum of all. Uses nothing but the standard
library, so that it runs on any host.
"""

from __future__ import annotations

import os
import socket
import sys
import time

PATIENCE_S = 120.0


def serve(listening: socket.socket, count: int) -> None:
    """Add up a number from each of `count` connections and send the sum to all of them."""
    connections = [listening.accept()[0] for _ in range(count)]
    total = sum(int(connection.makefile().readline()) for connection in connections)
    for connection in connections:
        connection.sendall(b"%d\n" % total)
        connection.close()


def connect(address: str, port: int) -> socket.socket:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((address, port))
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("", port))
    listening.listen(128)
    return listening


def main() -> None:
    env = os.environ
    if "HOROVOD_RANK" in env:
        rank, size, local = (int(env[f"HOROVOD_{name}"]) for name in ("RANK", "SIZE", "LOCAL_RANK"))
        place = env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])
        is_server = False
    else:
        rank, size, local = int(env["RANK"]), int(env["WORLD_SIZE"]), int(env["LOCAL_RANK"])
        place = env["MASTER_ADDR"], int(env["MASTER_PORT"])
        is_server = rank == 0
    if is_server:
        listening = listen(place[1])
        if not os.fork():
            serve(listening, size)
            os._exit(0)
        listening.close()
    connection = connect(*place)
    connection.sendall(b"%d\n" % (rank + 1))
    total = connection.makefile().readline().strip()
    first, gpus = env.get("GSCHED_IS_RANK0", "0"), env.get("CUDA_VISIBLE_DEVICES", "")
    line = f"rank {rank} of {size} local {local} on {socket.gethostname()} first {first} gpus {gpus} sum {total}\n"
    os.write(1, line.encode())  # at once: those of other ranks come in between
    if "stay" in sys.argv:
        os.execvp("sleep", ["sleep", "1000.7"])
    if "fail-once" in sys.argv and rank == size - 1:
        try:
            os.close(os.open(sys.argv[-1], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        sys.exit(9)


if __name__ == "__main__":
    main()
