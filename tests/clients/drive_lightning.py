"""PyTorch Lightning in jobs of the sbatch, srun, scancel and scontrol that come first on PATH. Prints OK lightning.

Two tasks train together. They are told that their time is near, save their state, and have Slurm put the job back into
its queue; then they go on where they were.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 240
TASKS = 2
SCRIPT = f"""#!/bin/bash
#SBATCH --job-name=lightning
#SBATCH --partition={os.environ.get("BATCH_QUEUE", "normal")}
#SBATCH --nodes=1
#SBATCH --ntasks-per-node={TASKS}
#SBATCH --gpus-per-task=1
#SBATCH --time=0-00:05:00
#SBATCH --signal=SIGUSR1@90
#SBATCH --requeue
#SBATCH --output=train.out
#SBATCH --open-mode=append
export MASTER_ADDR=127.0.0.1
srun '{sys.executable}' '{Path(__file__).resolve()}' train
"""


def train() -> None:
    """One of the tasks, in the job."""
    import pytorch_lightning as lightning
    import torch
    from pytorch_lightning.plugins.environments import SLURMEnvironment

    class Line(lightning.LightningModule):
        """Learns for ever, until it is started again."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            return (self.layer(batch) - batch).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

        def on_train_start(self) -> None:
            self.first = self.global_step

        def on_train_epoch_end(self) -> None:
            rank = self.trainer.global_rank
            if self.first:
                print(f"rank {rank} went on at step {self.first}", flush=True)
                self.trainer.should_stop = True
            else:
                Path(f"started.{rank}").touch()
                time.sleep(0.05)

    assert SLURMEnvironment.detect()
    found = SLURMEnvironment()
    node = SLURMEnvironment.resolve_root_node_address(os.environ["SLURM_NODELIST"])
    told = [found.job_id(), found.job_name(), node, found.world_size(), found.node_rank()]
    told += [found.global_rank(), found.local_rank(), len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))]
    print("environment", *told, flush=True)
    data = torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=2)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=TASKS, num_nodes=1, strategy="ddp", max_epochs=-1, default_root_dir=".", **quiet
    )
    assert isinstance(trainer.strategy.cluster_environment, SLURMEnvironment)
    trainer.fit(Line(), data)


def slurm(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    Path("train.sh").write_text(SCRIPT)
    number = slurm("sbatch", "--parsable", "train.sh")
    until = time.monotonic() + PATIENCE_S
    while not all(Path(f"started.{rank}").exists() for rank in range(TASKS)):
        assert time.monotonic() < until, Path("train.out").read_text()
        time.sleep(0.2)
    slurm("scancel", "--signal=USR1", number)
    while (state := slurm("sacct", "-X", "-n", "-P", "-o", "State", "-j", number)) != "COMPLETED":
        assert time.monotonic() < until, state + Path("train.out").read_text()
        time.sleep(0.5)
    output = Path("train.out").read_text()
    host = slurm("sacct", "-X", "-n", "-P", "-o", "NodeList", "-j", number)
    for rank in range(TASKS):
        line = f"environment {number} lightning {host} {TASKS} 0 {rank} {rank} 1"
        assert output.splitlines().count(line) == 2, output
        assert re.search(f"^rank {rank} went on at step [1-9]", output, re.MULTILINE), output
    assert f"Requeued SLURM job: {number}" in output, output
    assert "Restarts=1 " in slurm("scontrol", "-o", "show", "job", number)
    print("OK lightning")


if __name__ == "__main__":
    train() if sys.argv[1] == "train" else main()
