"""Why jobs wait, and on which other jobs.

Start with `pending_reasons`; dependency conditions are judged by `dependency_check`. It starts nothing.
"""
