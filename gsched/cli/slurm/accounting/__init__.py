"""sacct and what goes with it: sstat, sshare, sacctmgr. They share the form of their tables (`field_tables`).

Start with `sacct`. They only show; what gsched does not keep is left empty and never made up.
"""
