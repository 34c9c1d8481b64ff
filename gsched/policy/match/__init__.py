"""Which hosts can take a job of a class, which is the best, and why the others cannot.

Start with `fit_condition`: what a host must meet is a list of conditions, which `host_fit` asks one host and `columns`
all of them at once. It takes nothing.
"""
