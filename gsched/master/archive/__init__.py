"""Archives of history: files of finished jobs, month by month, that are read without a store and without a daemon.

Start with `archive_lines` (what a file says) and `archive_manifest` (which files there are). `gsched.app.archives`
writes them; `archive_reading` is the process that answers questions from them. It must never write to a store that a
master has.
"""
