"""Administration in a browser: hosts, GPUs and queues are closed and opened, configuration files read, tried and
changed, daemons and the audit log seen.

Start with `administrators`: nothing here is shown or done for anybody else, and the master decides once more. Files are
read and written with the rights of this process's user alone.
"""
