"""Notices of jobs on their way out of this host: kept on disk, sent by processes of their users, tried again.

Start with `notice_delivery`; `sender` is the program that sends. The agent never waits for anybody's server.
"""
