"""Row blocks: how the sums over data rows are cut so that memory stays bounded.

The block size depends on scikit-learn's ``working_memory`` and on the number of particles, never on
the number of jobs, so that a result does not depend on how the work was spread.
"""

from sklearn import get_config
from sklearn.utils import gen_batches

# Larger temporaries leave the second-level cache, and the allocator gives their memory back to the
# system after every use: sums over rows then take two to four times as long.
_CACHE_BYTES = 2**18
LEAST_ROWS = 64  # with fewer a product reads the particles more often than it uses them


def row_blocks(n_rows, bytes_per_row, *, least=LEAST_ROWS):
    """Yield slices that cover ``range(n_rows)``.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    bytes_per_row : int
        Size of the temporary arrays that one row needs.
    least : int, default=64
        Rows with which a block may leave the processor's cache.

    Yields
    ------
    slice
        Consecutive blocks of at least one row each.

    Examples
    --------
    >>> from skstein._tools.row_blocks import row_blocks
    >>> [block.stop - block.start for block in row_blocks(1000, 2**9)]
    [512, 488]
    """
    affordable = int(get_config()["working_memory"] * 2**20 // max(1, bytes_per_row))
    size = max(1, min(affordable, max(_CACHE_BYTES // max(1, bytes_per_row), least)))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def row_batches(n_rows, m):
    """Slices of rows: long beside m, which BLAS likes, within scikit-learn's working memory."""
    affordable = int(get_config()["working_memory"] * 2**20) // (32 * m)
    return gen_batches(n_rows, max(1, min(max(4 * m, 1024), affordable)))
