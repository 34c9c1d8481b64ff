"""What jobs print and what is written about them: kept, cut, shown and mailed.

Start with `report_delivery`. It never waits for a file server in the event loop.
"""
