"""Which hosts can take a job of a class, which is the best, and why the others cannot.

`host_fit` asks one host, `columns` all of them at once; both give the same answer. It takes nothing.
"""
