"""Writes docs/lsf-coverage.md, or prints the share: python -m tests.support.lsf_coverage [--share]."""

from __future__ import annotations

import sys

from tests.support.lsf_coverage.coverage_page import PAGE, share, text


def main() -> int:
    """The exit code."""
    if sys.argv[1:] == ["--share"]:
        print(share())
    elif not sys.argv[1:]:
        PAGE.write_text(text())
        print(share())
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
