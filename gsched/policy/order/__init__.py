"""Who is served first: queues by priority, jobs by fairshare or first come, first served.

Start with `serving_order`; `blocked_heads` puts those that a reservation is made for
in the same order. It knows no hosts and places nothing.
"""
