"""Jobs' services behind gsched's own pages: programs such as JupyterLab or TensorBoard, each under a name of its own.

Start with `service_gate`. A service is a program of somebody's: its pages are of another origin than gsched's, no
cookie or token of gsched's own is ever told to it, and nothing that it answers counts for gsched's pages.
"""
