"""What is kept of a dump after its tokens have been read once: one row per rollout, histograms and counts."""
