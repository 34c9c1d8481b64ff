"""What jobs of one class need on a host, and why a host does not give it.

Start with `demand`; `demand_reader` makes it of the texts of -R and -gpu. It looks at no host.
"""
