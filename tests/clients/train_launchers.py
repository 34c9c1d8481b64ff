"""A training program of each framework: all ranks give their number plus one, and print the sum of all.

train_launchers.py torch|accelerate|deepspeed|lightning|ray|horovod
"""

from __future__ import annotations

import os
import sys
from typing import Any


def tell(rank: int, size: int, total: int) -> None:
    line = f"rank {rank} of {size} first {os.environ.get('GSCHED_IS_RANK0', '0')} sum {total}\n"
    os.write(1, line.encode())


def by_torch() -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    number = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(number)
    tell(dist.get_rank(), dist.get_world_size(), int(number.item()))
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

    ray.init(logging_level="ERROR", log_to_driver=False)

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def give(rank: int) -> int:
        return rank + 1

    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    tell(0, nodes, sum(ray.get([give.remote(rank) for rank in range(6)])))


def by_horovod() -> None:
    import horovod.torch as hvd
    import torch

    hvd.init()
    total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum)
    tell(hvd.rank(), hvd.size(), int(total.item()))


if __name__ == "__main__":
    asked = sys.argv[1]
    if asked in ("torch", "accelerate", "deepspeed"):
        by_torch()
    else:
        {"lightning": by_lightning, "ray": by_ray, "horovod": by_horovod}[asked]()
