"""gsched: a GPU-aware batch job scheduler in the manner of LSF. Importing it costs nothing."""

__version__ = "0.1.0"
