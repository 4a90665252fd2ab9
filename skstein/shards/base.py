"""A function taken to shards: what the carriers have in common."""

from .._tools.parallel import one_thread


def visited(number, function, args, shard, own):
    """``function(shard, *args, *own)``; its error, with the number of the block, if it fails.

    An error that stands for a shard is what stands for the result.
    """
    if isinstance(shard, Exception):
        return shard
    try:
        with one_thread():  # as everywhere in a fit, so that bits do not depend on the place
            return function(shard, *args, *own)
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (f"{error.args[0].rstrip('.')} (block {number}).", *error.args[1:])
        else:
            error.add_note(f"in block {number}")
        return error


def sound(result):
    """A result, unless it is an error, which is raised."""
    if isinstance(result, Exception):
        raise result
    return result


class Shards:
    """Shards in order: values that live somewhere, and functions that are taken to them.

    A subclass has ``derive(function, *args, each=None)`` too, which makes shards of what `map`
    would return, each where the one is that it is made of, and ``at(places)``: some of the shards.

    Parameters
    ----------
    numbers : sequence of int
        By which messages call them: the positions of the blocks that were given.
    """

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def __len__(self):
        return len(self.numbers)

    def map(self, function, *args, each=None):
        """``function(shard, *args)`` of every shard, in order.

        Parameters
        ----------
        function : callable
            It has to be pickled, as ``args`` and the results have.
        *args : object
            The same for all shards.
        each : sequence, default=None
            A last argument for each shard.

        Returns
        -------
        list

        Raises
        ------
        Exception
            What the function raised, with the number of the block in its message.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define map().")

    def _own(self, each):
        return [()] * len(self) if each is None else [(one,) for one in each]
