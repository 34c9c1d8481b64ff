"""What an installation puts on a host: units of systemd, certificates, manual pages, LSF's names of commands.

Start with `install`. It must never replace a file that somebody has changed, unless that is asked.
"""
