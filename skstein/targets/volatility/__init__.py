"""Stochastic volatility as a target, and its coordinates."""
