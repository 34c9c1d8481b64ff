"""`gsched top`: a live screen of the cluster in the terminal.

Start with `running`. `watching` says what a look holds, asks the master for looks, and records and replays them;
`drawing` makes lines of them; `screens` shows these with textual. It speaks to the master through gsched.wire alone,
keeps no more than it says, and never takes a name or an output for markup.
"""
