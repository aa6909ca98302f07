"""``python -m iscope``: the same command line as ``iscope``."""

from __future__ import annotations

from iscope.cli.app import main

if __name__ == "__main__":
    main()
