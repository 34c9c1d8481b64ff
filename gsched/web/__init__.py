"""`gsched web`: the cluster as pages for a browser, served to the user who runs it, and to nobody else.

Start with `application`: which routes there are and what stands before them. It speaks to the master through
`gsched.wire` alone, as the user of this process. It never serves a request without a proven user, never takes a name or
an output of a job for markup, and never loads anything from another place.
"""
