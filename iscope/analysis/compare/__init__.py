"""Comparisons: many settings of recipes on one dump, and two dumps side by side."""
