"""Configuration in LSF's file formats: read, checked as a whole, and turned into one ClusterConfig.

`files.load` reads a folder, `template.write_private` writes one.
"""
