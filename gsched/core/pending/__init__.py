"""Why jobs wait, and on which other jobs.

Start with `pending_reasons`. Reasons are codes here; their words are in `base.sentences`, their lines are
made by `cli.render.text.reason_texts`. Dependency conditions are judged by `dependency_check`. It starts nothing.
"""
