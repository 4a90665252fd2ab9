"""Neural networks as targets."""
