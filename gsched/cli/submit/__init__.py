"""What only submission has: esubs, packs, waiting for the job, being its terminal.

Start with gsched.cli.commands.gsub.
"""
