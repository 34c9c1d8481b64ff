"""PyTorch Lightning in jobs of the sbatch, srun, scancel and scontrol that come first on PATH. Prints OK lightning.

Two tasks train together. Another job is told that its time is near, saves its state, and has Slurm put it back into the
queue; then it goes on where it was. (It has one task: a signal between two that wait for each other may stop both.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 240
SCRIPT = """#!/bin/bash
#SBATCH --job-name=lightning
#SBATCH --partition={queue}
#SBATCH --nodes=1
#SBATCH --ntasks-per-node={tasks}
#SBATCH --gpus-per-task=1
#SBATCH --time=0-00:02:00
#SBATCH --signal=SIGUSR1@60
#SBATCH --requeue
#SBATCH --output={tasks}.out
#SBATCH --open-mode=append
export MASTER_ADDR=127.0.0.1
srun '{python}' '{program}' train
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
            print("begins at step", self.first, flush=True)

        def on_train_epoch_end(self) -> None:
            self.trainer.should_stop = self.first > 0 or tasks > 1
            time.sleep(0.05)

    tasks = int(os.environ["SLURM_NTASKS"])
    assert SLURMEnvironment.detect()
    found = SLURMEnvironment()
    node = SLURMEnvironment.resolve_root_node_address(os.environ["SLURM_NODELIST"])
    told = [found.job_id(), found.job_name(), node, found.world_size(), found.node_rank()]
    told += [found.global_rank(), found.local_rank(), len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))]
    print("environment", *told, flush=True)
    data = torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=2)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=tasks,
        num_nodes=1,
        strategy="ddp",
        max_epochs=-1,
        default_root_dir=".",
        **quiet,
    )
    assert isinstance(trainer.strategy.cluster_environment, SLURMEnvironment)
    trainer.fit(Line(), data)


def slurm(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def run(tasks: int) -> str:
    """What a job with so many tasks has printed, once it is done."""
    queue, program = os.environ.get("BATCH_QUEUE", "normal"), Path(__file__).resolve()
    Path("train.sh").write_text(SCRIPT.format(queue=queue, tasks=tasks, python=sys.executable, program=program))
    number = slurm("sbatch", "--parsable", "train.sh")
    until = time.monotonic() + PATIENCE_S
    while (state := slurm("sacct", "-X", "-n", "-P", "-o", "State", "-j", number)) != "COMPLETED":
        assert time.monotonic() < until, state + Path(f"{tasks}.out").read_text()
        time.sleep(0.5)
    output = Path(f"{tasks}.out").read_text()
    host = slurm("sacct", "-X", "-n", "-P", "-o", "NodeList", "-j", number)
    for rank in range(tasks):
        line = f"environment {number} lightning {host} {tasks} 0 {rank} {rank} 1"
        assert output.splitlines().count(line) == (2 if tasks == 1 else 1), output
    assert f"Restarts={int(tasks == 1)} " in slurm("scontrol", "-o", "show", "job", number)
    return output


def main() -> None:
    assert "begins at step 0" in run(2)
    output = run(1)
    assert re.search("^begins at step [1-9]", output, re.MULTILINE) and "Requeued SLURM job" in output, output
    print("OK lightning")


if __name__ == "__main__":
    train() if sys.argv[1] == "train" else main()
