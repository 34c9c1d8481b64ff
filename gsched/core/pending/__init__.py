"""Why jobs wait, and on which other jobs.

Start with `pending_reasons`. Reasons are codes here; their words are in `base.sentences`. Dependency conditions
are judged by `dependency_check`. It starts nothing.
"""
