"""What is checked and learnt of `X`, `y` and parameters before a fit."""
