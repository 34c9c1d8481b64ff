"""The agent of one host: runs what the master orders, reports what it sees. It decides nothing about scheduling.

Start with `daemon`; `message_handler` carries out what the master orders, `attempts` has what runs here.
"""
