"""The maths of a recipe in torch: ratios, weights, filters."""
