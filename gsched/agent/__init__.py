"""The agent of one host: runs what the master orders, reports what it sees. It decides nothing about scheduling.

Start with `daemon`; `message_handler` obeys, `attempts` has what runs here.
"""
