"""Who is served first: queues by priority, jobs by fairshare or first come, first served.

Start with `serving_order`. It knows no hosts and places nothing.
"""
