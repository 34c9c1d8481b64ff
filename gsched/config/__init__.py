"""Configuration in LSF's file formats: read, checked as a whole, and turned into one ClusterConfig.

Start with `configuration.load`: `sections` has the grammar, `lsb_*` and `lsf_*` read one file each, and a parameter of
a queue is a row of `queue_parameters`. `template.write_private` writes a folder. It asks no daemon.
"""
