"""Rows in shards: where they are, and how a function is taken to them.

A sum over rows is a sum over shards. :class:`Chunks` names pieces that are read in this process,
one at a time, so that data larger than memory can be fitted; arrays and data frames of Dask stay on
the workers of a cluster. Either way a function goes to each shard and small results come back, in
the order of the shards, so that sums have the same bits whoever computes them.
"""

from .chunks import Chunks
from .dask_collections import bind, by_block, header, is_collection

__all__ = ["Chunks", "bind", "by_block", "header", "is_collection"]
