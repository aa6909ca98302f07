"""Compiled loops over the tokens of a block."""
