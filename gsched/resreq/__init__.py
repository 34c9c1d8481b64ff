"""The resource requirement language (`-R`, RES_REQ): text in, frozen values out.

Nothing here knows a job or a host, or does any I/O.
"""
