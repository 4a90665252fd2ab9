"""Collections of rows: which there are, how they become shards, and predictions block by block."""

import warnings
from functools import partial, wraps

import numpy as np

from .._input.validation import is_dask
from .chunks import Chunks, LocalShards


def is_collection(values):
    """Whether rows come in blocks that are not in memory: `Chunks`, or a collection of Dask."""
    return isinstance(values, Chunks) or is_dask(values)


def header(rows):
    """No rows of a collection, with its columns, their names and its type."""
    if isinstance(rows, Chunks):
        first = rows.read(0)
        return (first.tocsr() if hasattr(first, "tocsr") else first)[:0]
    meta = getattr(rows, "_meta", None)
    return meta if hasattr(meta, "dtypes") else np.empty((0, *rows.shape[1:]), dtype=rows.dtype)


def bind(X, **columns):
    """Shards of dictionaries: for each block its rows of X, and of what else is not None.

    Parameters
    ----------
    X : Chunks or Dask collection
    **columns : Chunks, Dask collection, array-like or None
        Of X's kind, with a number for each row. Beside a Dask collection what is in memory is cut
        as X is.

    Raises
    ------
    TypeError
        If one is of another kind than X.
    ValueError
        If one has another number of rows or of blocks than X, with its name.
    """
    given = {name: values for name, values in columns.items() if values is not None}
    if isinstance(X, Chunks):
        for name, values in given.items():
            if not isinstance(values, Chunks):
                raise TypeError(f"{name} must come in Chunks, as X does.")
            _require_as_many(name, len(values.sources), len(X.sources), "pieces")
        read = partial(_read, {"X": X, **given})
        return LocalShards([partial(read, place) for place in range(len(X.sources))])
    from .cluster import ClusterShards, current_client

    client = current_client()
    blocks, source = _dask_blocks(X, given, client)
    if client is None:  # threads, or this process
        return LocalShards([block.compute for block in blocks])
    return ClusterShards(client, client.compute(blocks), source=source)


def _require_as_many(name, n, n_of_X, what):
    if n != n_of_X:
        raise ValueError(
            f"{name} has {n} {what} and X has {n_of_X}: give {name} for the same rows as X, cut in "
            "the same way."
        )


def _read(columns, place):
    return {name: values.read(place) for name, values in columns.items()}


def _dask_blocks(X, given, client=None):
    """A delayed dictionary for each block of rows, and the collections that it is made of."""
    from dask import array as da
    from dask import delayed

    X = X.rechunk({1: -1}) if isinstance(X, da.Array) else X
    in_memory = [name for name, values in given.items() if not is_dask(values)]
    cut = {name: values for name, values in given.items() if name not in in_memory}
    # As they are where blocks can be those of the same rows; else by the numbers of rows.
    apart = [name for name, values in cut.items() if _cuts(values) != _cuts(X)]
    if in_memory or any(
        len(_cuts(cut[name])) != len(_cuts(X)) or _known(cut[name]) for name in apart
    ):
        X = _with_sizes(X, client)
        sizes = _cuts(X)
        for name in [*in_memory, *apart]:
            values = given[name]
            if name in in_memory:
                values = da.from_array(np.asarray(values), chunks=-1)
            values = _with_sizes(values, client)
            _require_as_many(name, values.shape[0], sum(sizes), "rows")
            cut[name] = values.rechunk({0: sizes})
    parts = {"X": X, **{name: cut[name] for name in given}}
    # Optimised, small files are read several at once, how many depends on the columns.
    lists = [
        np.ravel(values.to_delayed(optimize_graph=hasattr(values, "chunks"))).tolist()
        for values in parts.values()
    ]
    if len(set(map(len, lists))) > 1:
        raise ValueError(f"{' and '.join(parts)} come in different numbers of blocks.")
    return [delayed(dict(zip(parts, row, strict=True))) for row in zip(*lists, strict=True)], parts


def _cuts(values):
    """Numbers of rows of each block, (n, ...); NaN where they are not known."""
    return values.chunks[0] if hasattr(values, "chunks") else (np.nan,) * values.npartitions


def _known(values):
    return not np.isnan(_cuts(values)).any()


def _with_sizes(values, client):
    """An array with the same rows, whose blocks have known sizes; a cluster computes it once."""
    if client is not None and not _known(values):
        values = client.persist(values)
    if hasattr(values, "to_dask_array"):
        return values.to_dask_array(lengths=True)
    return values if _known(values) else values.compute_chunk_sizes()


def by_block(function, X, y=None):
    """``function(X[, y])`` of every block, as a lazy collection of X's kind.

    Parameters
    ----------
    function : callable
        Of a block's rows, with a result for each row, or a tuple of such.
    X : Dask collection
        Columns become one block. Of a data frame the result is one too, or a series, with the
        same index; of what has more dimensions an array.
    y : Dask collection, default=None
        Of the same rows.

    Returns
    -------
    Dask collection, or a tuple of them

    Raises
    ------
    TypeError
        If X is not a Dask collection.
    """
    if not is_dask(X):
        raise TypeError("predictions of Chunks go piece by piece: predict each piece by itself.")
    meta = getattr(X, "_meta_nonempty", None)
    rows = np.zeros((1, X.shape[1]), dtype=X.dtype) if meta is None else meta[:1]
    none = () if y is None else (None,)
    with warnings.catch_warnings(action="ignore"):  # of a row that is nobody's
        try:
            one = function(rows, *none)  # whose type a block's has
        except (ValueError, FloatingPointError):  # such a row may be far away, or of no known group
            first = X.head(1, npartitions=-1) if meta is not None else X.blocks[0].compute()[:1]
            one = function(first, *none)
    if isinstance(one, tuple):
        return tuple(_lazy(partial(_part, function, i), X, y, of) for i, of in enumerate(one))
    return _lazy(function, X, y, one)


def _part(function, i, *rows):
    return function(*rows)[i]


def _lazy(function, X, y, one):
    if y is None and hasattr(X, "map_partitions") and one.ndim < 3:
        import pandas as pd

        kind = pd.Series if one.ndim == 1 else pd.DataFrame
        meta = kind(one, index=X._meta_nonempty.index[:1])[:0]
        return X.map_partitions(partial(_indexed, function, kind, one), meta=meta)
    from dask import array as da
    from dask import delayed

    pieces, _ = _dask_blocks(X, {} if y is None else {"y": y})
    visit = delayed(partial(_values, function, one))
    blocks = [
        da.from_delayed(visit(piece), shape=(size, *one.shape[1:]), dtype=one.dtype)
        for piece, size in zip(pieces, _cuts(X), strict=True)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _values(function, one, rows):
    """Of no rows there is nothing to predict."""
    return function(*rows.values()) if rows["X"].shape[0] else one[:0]


def _indexed(function, kind, one, frame):
    return kind(_values(function, one, {"X": frame}), index=frame.index)


def lazy_on_collections(method):
    """A prediction that is lazy, block by block, where X is a Dask collection."""

    @wraps(method)
    def predicted(self, X, *args, **kwargs):
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        return by_block(lambda rows: method(self, rows, *args, **kwargs), X)

    return predicted
