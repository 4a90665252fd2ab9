"""What happens between the rounds of an engine: lines of progress, and scikit-learn's callbacks.

An engine knows neither; it is given one function that it calls after every round and that may ask
it to stop (see `skstein.inference.base.Engine.run`).
"""

import time


def joined_callbacks(*callbacks):
    """One callback of an engine that calls them all; it stops if any of them asks for it."""

    def callback(iteration, total, make_posterior, info):
        return any([each(iteration, total, make_posterior, info) for each in callbacks])

    return callback


class ProgressLines:
    """Callback of an engine that prints a line for each tenth of the run and each stage of it.

    It says where the run is, the loss where there is one, and the seconds spent. How many are left
    is known in the last stage after its first round, in which routines compile and chains warm up.
    """

    def __init__(self, label):
        self.label = label
        self.last = 0, ""
        self.begin = time.perf_counter()
        self.first = None

    def __call__(self, iteration, total, make_posterior, info):
        now = 10 * iteration // total, info.get("stage", "")
        spent = time.perf_counter() - self.begin
        if self.first is None or now[1] != self.last[1]:
            self.first = iteration, spent
        if now != self.last:
            self.last = now
            stage = f"{now[1]}, " if now[1] else ""
            loss = f", loss {info['loss']:.3g}" if "loss" in info else ""
            done, since = iteration - self.first[0], spent - self.first[1]
            more = since / done * (total - iteration) if done else 0.0
            known = info.get("last_stage", True) and more >= 0.5
            left = f", about {more:.0f} s left" if known else ""
            where = f"{stage}iteration {iteration} of {total}"
            print(f"[{self.label}] {where}{loss}, {spent:.1f} s{left}")
        return False


class RoundTasks:
    """Callback of an engine that makes every round a task of `sklearn.callback`.

    A task is announced when it begins, but an engine calls only when a round has ended. So the next
    task begins at once, and where an engine finds that it needs no more rounds, `close` ends that
    task empty: without an estimator to look at.

    Parameters
    ----------
    context : sklearn.callback.CallbackContext
        Of the fit.
    event : dict
        What every hook is told: ``estimator``, ``X``, ``y`` and ``metadata``.
    attributes : callable
        ``attributes(posterior)``: the attributes of an estimator fitted with that posterior.
    """

    def __init__(self, context, event, attributes):
        self._context = context
        self._event = event
        self._attributes = attributes
        self._task = self._begin(None)

    def __call__(self, iteration, total, make_posterior, info):
        def attributes():
            posterior = make_posterior()
            posterior.n_iter = info.get("n_iter", iteration)
            return self._attributes(posterior)

        stop = self._task.call_on_fit_task_end(**self._event, reconstruction_attributes=attributes)
        self._task = None if stop or iteration >= total else self._begin(attributes)
        return stop

    def close(self):
        """End a task that has begun and was not needed."""
        if self._task is not None:
            self._task.call_on_fit_task_end(estimator=self._event["estimator"])

    def _begin(self, attributes):
        task = self._context.subcontext(task_name="round")
        return task.call_on_fit_task_begin(**self._event, reconstruction_attributes=attributes)
