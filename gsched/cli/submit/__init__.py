"""What only submission has: esubs, packs, waiting for the job, being its terminal.

Start with `job_wait` (gsub -K) and `interactive` (gsub -I); gsched.cli.commands.submission.gsub calls them.
"""
