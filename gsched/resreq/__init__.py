"""The resource requirement language (`-R`, RES_REQ): text in, frozen values out.

Start with `parsing` (`parsing.syntax` for -R, `parsing.gpu` for -gpu); `ast` has the values. Nothing here knows a job
or a host, or does any I/O.
"""
