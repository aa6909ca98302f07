"""Slow, plain, per-token references, written from the definitions. They import nothing of the package."""
