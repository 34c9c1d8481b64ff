"""Running jobs: orders, the supervisor that outlives the agent, process trees.

Start with `executor`; `attempts` follows and ends what runs. It never decides which job runs.
"""
