"""Row blocks: how the sums over data rows are cut so that memory stays bounded.

The block size depends on scikit-learn's ``working_memory`` and on the number of particles, never on
the number of jobs, so that a result does not depend on how the work was spread.
"""

from sklearn import get_config

# Larger temporaries leave the second-level cache, and the allocator gives their memory back to the
# system after every use: sums over rows then take two to four times as long.
_CACHE_BYTES = 2**18
_LEAST_ROWS = 64  # with fewer a product reads the particles more often than it uses them


def row_blocks(n_rows, bytes_per_row, *, cache=True):
    """Yield slices that cover ``range(n_rows)``.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    bytes_per_row : int
        Size of the temporary arrays that one row needs.
    cache : bool, default=True
        Also keep a block within the processor's cache, if it then has 64 rows at least.

    Yields
    ------
    slice
        Consecutive blocks of at least one row each.

    Examples
    --------
    >>> from skstein._blocks import row_blocks
    >>> [block.stop - block.start for block in row_blocks(1000, 2**9)]
    [512, 488]
    """
    size = int(get_config()["working_memory"] * 2**20 // max(1, bytes_per_row))
    if cache:
        size = min(size, max(_CACHE_BYTES // max(1, bytes_per_row), _LEAST_ROWS))
    size = max(1, size)
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
