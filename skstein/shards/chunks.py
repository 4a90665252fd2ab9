"""Shards in this process, made again whenever a function needs them, and dropped after it."""

from functools import partial
from pathlib import Path

import numpy as np

from .base import Shards, sound, visited


class Chunks:
    """Rows in pieces, of which one at a time is in memory: what `fit` takes as X or as y.

    Parameters
    ----------
    sources : sequence
        Of arrays, memory maps and data frames, of functions without arguments that return one, or
        of names of files: ``.npy``, which are mapped into memory, or ``.parquet``, which pandas
        reads.
    columns : str or list of str, default=None
        Of data frames: one column, or some in their order; by default all.

    Notes
    -----
    A gradient reads every piece, so that files in NumPy's format, which are not decoded, are much
    the faster ones. The pieces of X, y, weights and offsets have to be the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.shards import Chunks
    >>> rng = np.random.default_rng(0)
    >>> pieces = [rng.normal(size=(1000, 2)) for _ in range(3)]
    >>> X = Chunks(pieces)
    >>> y = Chunks([(piece[:, 0] > rng.logistic(size=1000)).astype(int) for piece in pieces])
    >>> clf = BayesianLogisticRegression("laplace", random_state=0).fit(X, y)
    >>> (clf.coef_ > 0.5).tolist()
    [[True, False]]
    """

    def __init__(self, sources, columns=None):
        if isinstance(sources, str | bytes | Path) or not hasattr(sources, "__iter__"):
            raise TypeError(f"sources must be a sequence of pieces, got {sources!r}: give a list.")
        kind = getattr(getattr(sources, "dtype", None), "kind", "O")
        if hasattr(sources, "columns") or (kind not in "OU" and sources.ndim < 2):
            raise TypeError(f"sources must be a list of pieces, got one {type(sources).__name__}.")
        self.sources, self.columns = list(sources), columns
        if not self.sources:
            raise ValueError("sources has no piece: give at least one.")

    def __repr__(self):
        return f"Chunks of {len(self.sources)} pieces"

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Chunks are not in memory: fit of linear models takes them, if all of X, y, weights "
            "and offset are Chunks; give other methods and models one piece at a time."
        )

    def read(self, place):
        """The rows of one piece.

        Parameters
        ----------
        place : int

        Returns
        -------
        array or data frame
        """
        source = self.sources[place]
        if isinstance(source, str | Path):
            return self._file(Path(source))
        rows = source() if callable(source) else source
        if self.columns is None:
            return rows
        if not hasattr(rows, "columns"):
            raise TypeError(
                f"columns={self.columns!r} are of data frames, and piece {place} is of type "
                f"{type(rows).__name__}: leave columns out, or give data frames."
            )
        return rows[self.columns]

    def _file(self, path):
        if path.suffix == ".npy" and self.columns is None:
            return np.load(path, mmap_mode="r")
        if path.suffix == ".parquet":
            import pandas as pd

            names = [self.columns] if isinstance(self.columns, str) else self.columns
            frame = pd.read_parquet(path, columns=names)
            return frame[self.columns] if isinstance(self.columns, str) else frame
        raise ValueError(
            f"{path} is not a file of a known kind: give .npy (without columns=) or .parquet, "
            "or a function that reads it."
        )


class LocalShards(Shards):
    """Shards in this process.

    Parameters
    ----------
    makers : sequence of callable
        Each without arguments; it returns the shard.
    numbers : sequence of int, default=None
    """

    def __init__(self, makers, numbers=None):
        super().__init__(range(len(makers)) if numbers is None else numbers)
        self._makers = list(makers)

    def map(self, function, *args, each=None):
        return [
            sound(visited(number, _made, (function, args), make, own))
            for number, make, own in zip(self.numbers, self._makers, self._own(each), strict=True)
        ]

    def derive(self, function, *args, each=None):
        makers = [
            partial(_made, make, function, args, *own)
            for make, own in zip(self._makers, self._own(each), strict=True)
        ]
        return LocalShards(makers, self.numbers)

    def at(self, places):
        return LocalShards([self._makers[i] for i in places], [self.numbers[i] for i in places])


def _made(make, function, args, *own):
    return function(make(), *args, *own)
