"""Commands that tell of jobs: how they stand, what became of them, what they used, what they print.

Start with `gjobs`. A command here never changes a job, and lays out nothing itself: gsched.cli.render does.
"""
