"""What pages show of the cluster, kept at hand: hosts, queues and a row for each job, as the master told last.

Start with `cluster_mirror`. However many pages are open, the master is asked once. It decides nothing and is never
what a deed is judged by; its memory is bounded by what the master holds.
"""
