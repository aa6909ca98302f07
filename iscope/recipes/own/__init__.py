"""A user's own recipes: from a TOML file, from Python, from an installed package. Data, checked as it comes in."""
