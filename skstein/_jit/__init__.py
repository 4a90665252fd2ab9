"""Compiled routines: float64 C-order arrays and scalars in, arrays out; no classes."""
