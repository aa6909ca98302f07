"""Who carries out the pass over the tokens."""
