"""A training program of each framework: all ranks give their number plus one, and print the sum of all.

    train_launchers.py torch|accelerate|deepspeed|lightning|ray|horovod [stay]

With `stay` they then go on adding up without an end, unless they have been started again. Of ray, the one process that
it has prints the sum, and the hosts that its tasks ran on.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any


def tell(rank: int, size: int, total: int) -> None:
    """As tests/support/stand_in_all_reduce.py does."""
    env = os.environ
    local = env.get("LOCAL_RANK") or env.get("HOROVOD_LOCAL_RANK") or "0"
    first, gpus = env.get("GSCHED_IS_RANK0", "0"), env.get("CUDA_VISIBLE_DEVICES", "")
    line = f"rank {rank} of {size} local {local} on {socket.gethostname()} first {first} gpus {gpus} sum {total}\n"
    os.write(1, line.encode())  # at once: those of other ranks come in between


def stay(add_up: Callable[[], object]) -> None:
    """Add up again and again, if that was asked for."""
    if "stay" in sys.argv and os.environ.get("GSCHED_RESTART_COUNT", "0") == "0":
        while True:
            add_up()
            time.sleep(0.05)


def by_torch() -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    number = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(number)
    tell(dist.get_rank(), dist.get_world_size(), int(number.item()))
    stay(lambda: dist.all_reduce(number))
    dist.barrier()
    dist.destroy_process_group()


def by_lightning() -> None:
    import pytorch_lightning as lightning
    import torch

    class Line(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            return (self.layer(batch) - batch).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

        def on_train_end(self) -> None:
            total = self.trainer.strategy.reduce(torch.tensor(self.global_rank + 1.0), reduce_op="sum")
            tell(self.global_rank, self.trainer.world_size, int(total.item()))
            stay(lambda: self.trainer.strategy.reduce(total, reduce_op="sum"))

    quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy="ddp",
        max_steps=2,
        **quiet,
    )
    trainer.fit(Line(), torch.utils.data.DataLoader(torch.ones(16, 1), batch_size=1))


def by_ray() -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(logging_level="ERROR", log_to_driver=False)

    @ray.remote(num_cpus=1, max_retries=0)
    def give(rank: int) -> tuple[int, str]:
        return rank + 1, socket.gethostname()

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    places = [NodeAffinitySchedulingStrategy(nodes[rank % len(nodes)], soft=False) for rank in range(6)]

    def given() -> list[tuple[int, str]]:
        found = [give.options(scheduling_strategy=place).remote(rank) for rank, place in enumerate(places)]
        numbers: list[tuple[int, str]] = ray.get(found)
        return numbers

    numbers = given()
    os.write(1, f"tasks on {' '.join(sorted({host for _, host in numbers}))}\n".encode())
    tell(0, len(nodes), sum(number for number, _ in numbers))
    stay(given)


def by_horovod() -> None:
    import horovod.torch as hvd
    import torch

    hvd.init()
    total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum)
    tell(hvd.rank(), hvd.size(), int(total.item()))
    stay(lambda: hvd.allreduce(total, op=hvd.Sum))


if __name__ == "__main__":
    asked = sys.argv[1]
    if asked in ("torch", "accelerate", "deepspeed"):
        by_torch()
    else:
        {"lightning": by_lightning, "ray": by_ray, "horovod": by_horovod}[asked]()
