"""`gsched mcp`: an assistant asks about the cluster, and submits and ends jobs where that is allowed.

A server of the Model Context Protocol over standard input and output, with the package `mcp` of the extra gsched[mcp].
Start with `mcp_server`. It speaks to the master as its own user and never has more rights than that user; it never
writes anything but the protocol to standard output, and changes nothing that was not confirmed.
Source of the protocol: https://modelcontextprotocol.io/specification.
"""
