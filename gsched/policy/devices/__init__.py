"""Which GPUs and which processor units of one host, of those that are free.

Start with `gpu_choice`; `scarce_placement` may change its choice for parts of GPUs. It takes nothing: the ledger does,
when the plan is carried out.
"""
