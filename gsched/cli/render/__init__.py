"""Text layout of the commands: from plain records to the text a terminal shows.

Start with `jobs`, `hosts` or `cluster`, whatever is shown; `text` has the rules of all layouts.

Pure: no request, no file, no clock, no environment. Every function returns finished text, each line ended by a newline
(the empty text when there is nothing to show). Moments are seconds since the epoch; the caller gives the time zone.
"""
