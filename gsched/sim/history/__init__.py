"""What a real cluster has done, from the record of its master: as a workload, and decided once more.

Start with `recorded_history`. It reads stores and writes none.
"""
