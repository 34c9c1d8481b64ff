"""Where processes begin: the launcher of the commands, `gsched`, `gadmin`, the daemons. Everything else is below."""
