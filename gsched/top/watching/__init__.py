"""What is seen of the cluster: one look, how looks are asked for, recorded and replayed.

Start with `look`. Nothing here knows of a terminal; memory is bounded whatever the cluster holds.
"""
