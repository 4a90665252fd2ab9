"""Engines for neural networks: training, and what follows it."""
