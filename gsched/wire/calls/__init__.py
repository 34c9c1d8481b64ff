"""The side that asks: the client of the master, and how a call waits for a master that is away.

Start with `client.Client`. A call that may have been carried out is never repeated without its token.
"""
