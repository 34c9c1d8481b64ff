"""Why one pending job waits, until when, and what would start it: found out when somebody asks, never in a cycle.

Start with `job_explanation`. The scheduler that plans is asked, on snapshots of its own; nothing comes of its plans,
and this topic never changes the state.
"""
