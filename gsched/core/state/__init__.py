"""The state of a cluster: events build it, replay of the same events reproduces it exactly.

Start with `cluster_state.ClusterState`; `apply_events` says what each event changes. Only events change it.
"""
