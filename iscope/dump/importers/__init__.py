"""Readers of what frameworks write themselves; nothing that is read is ever executed."""
