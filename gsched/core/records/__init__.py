"""What the state keeps of each job, array, group and user, as plain values.

Nothing here finds anything or decides anything. Start with `job.JobRecord`. Must never import the state.
"""
