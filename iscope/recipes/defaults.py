"""The recipes that are replayed when the user names none."""

from __future__ import annotations

DEFAULT_RECIPES = (
    "none",
    "trl/sequence_mask:clip_max=3",
    "trl/token_truncate:clip_max=2",
    "icepop:0.5,5",
    "trl/token_mask:clip_min=0.5,clip_max=2",
    "prime-rl/ipo",
    "prime-rl/seq_tis",
    "prime-rl/seq_mis",
    "prime-rl/mis_po",
)
