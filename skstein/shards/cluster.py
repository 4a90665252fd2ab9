"""Shards as futures of a Dask cluster: tasks without state, which lineage repeats elsewhere.

Nothing is kept between two rounds but the shards themselves: a worker that is lost takes with it
only what the scheduler knows how to make again. So no actors, and no talk among the workers.
"""

from pickle import loads

from .base import Shards, sound, visited

_SENT_WITH_TASKS = 2**21  # bytes
_CLOSED = "closing", "closed", "newly-created"


def current_client():
    """The client that Dask would compute on here and now; None for threads or this process."""
    from dask.base import get_scheduler

    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


class ClusterShards(Shards):
    """Shards on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    futures : sequence of distributed.Future
    numbers : sequence of int, default=None
    source : object, default=None
        What the futures are made of. It is held until they have been seen: the scheduler may hear
        that it is not needed any more before it hears of those who need it.
    """

    def __init__(self, client, futures, numbers=None, source=None):
        super().__init__(range(len(futures)) if numbers is None else numbers)
        self._client, self._futures, self._source = client, list(futures), source

    def __reduce__(self):
        raise TypeError("rows on a cluster cannot be pickled: fit where the client is.")

    def _submitted(self, task, function, args, each):
        self._require_open()
        call = _packed((function, args))
        if len(call) * len(self) > _SENT_WITH_TASKS:  # workers then get it from each other
            call = self._client.scatter(call, hash=False)
        return self._client.map(
            task, self.numbers, self._futures, self._own(each), [call] * len(self), pure=False
        )

    def map(self, function, *args, each=None):
        futures = self._submitted(_result, function, args, each)
        try:
            results = self._client.gather(futures)
        except BaseException as error:
            if isinstance(error, Exception):
                self._require_open(error)
            if self._client.status not in _CLOSED:
                self._client.cancel(futures)
            raise
        self._source = None
        return [sound(loads(result)) for result in results]

    def derive(self, function, *args, each=None):
        futures = self._submitted(_shard, function, args, each)
        return ClusterShards(self._client, futures, self.numbers, self)

    def at(self, places):
        futures = [self._futures[i] for i in places]
        return ClusterShards(self._client, futures, [self.numbers[i] for i in places], self._source)

    def _require_open(self, error=None):
        if self._client.status in _CLOSED:
            raise RuntimeError(
                "the Dask client was closed before the fit had ended: keep it open, and fit again."
            ) from error


def _packed(value):
    """One block of bytes: arrays that travel apart may arrive at odd addresses."""
    from distributed.protocol.pickle import dumps

    return dumps(value)


def _shard(number, shard, own, call):
    function, args = loads(call)
    return visited(number, function, args, shard, own)


def _result(number, shard, own, call):
    return _packed(_shard(number, shard, own, call))
