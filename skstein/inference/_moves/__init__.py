"""The moves that engines are made of: how particles change, and what is learnt from them."""
