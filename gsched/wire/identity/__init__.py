"""Who speaks: certificates of hosts, credentials of users, and what a host vouches for.

Start with `caller_identity`. A name in a message is never believed: the transport or a credential proves it.
"""
