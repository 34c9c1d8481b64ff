"""What hosts have: values that agents have reported, values that follow from them, resources that hosts share.

Start with `observed_hosts`. Volatile: never an event, gone with the process. It decides nothing.
"""
