"""Jobs coming in, and their modification: completed, checked, admitted or refused as a whole.

Start with `submit`; `admission` decides. A refused request leaves everything as it was.
"""
