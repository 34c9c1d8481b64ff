"""`srun` within a job: it asks for a step, and is the terminal of its tasks. Start with `srun`.

Outside of a job srun submits one, which is gsched.cli.slurm.srun's. Nothing here starts a process.
"""
