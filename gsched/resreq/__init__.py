"""The resource requirement language (`-R`, RES_REQ): text in, frozen values out.

Start with `syntax` (-R) or `gpu` (-gpu); `ast` has the values. Nothing here knows a job or a host, or does any I/O.
"""
