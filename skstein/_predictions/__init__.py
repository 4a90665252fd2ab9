"""Predictions: averages of the distribution of an outcome over the particles."""
