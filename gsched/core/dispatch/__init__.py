"""From the state to the snapshot that a scheduling cycle reads, and from its plan to facts.

Start with `snapshot_builder` and `dispatcher`. It chooses nothing: gsched.policy does. Each placement is checked again.
"""
