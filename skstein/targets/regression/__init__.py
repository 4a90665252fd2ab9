"""Regressions as targets: designs, priors, random effects, and their coordinates."""
