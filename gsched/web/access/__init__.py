"""Who is let in: one-time tokens, sessions, and what is checked of each request before anything else sees it.

Start with `gate`. It knows nothing of jobs and pages, and never trusts a name that a request states.
"""
