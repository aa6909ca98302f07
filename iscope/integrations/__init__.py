"""Thin users of the public API inside other tools."""
