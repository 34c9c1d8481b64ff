"""Who holds which slots, GPUs, processors and amounts of which host.

Start with `ledger`, which is made of a `host_ledger` for each host. It counts, and never chooses: whether a job fits is
asked of gsched.policy.match. No GPU may ever have two exclusive owners here.
"""
