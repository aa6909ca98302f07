"""The report of a run while it is being written."""
