"""Time to the same error: this package beside NumPyro, blackjax, nutpie and scikit-learn.

All methods run in turn in one process, on logistic regressions whose posteriors are known from long
Markov chains. Times are processor times. Engines run with their defaults. Peers are no-U-turn
samplers with one chain: 300 iterations of warm-up and 1000 draws. Their error falls with the root
of the number of draws, so that the time to an error is that of the warm-up and of as many draws as
the measured error calls for. NumPyro and blackjax have dense metrics and are compiled ahead of
time, so that compilation is timed alone. nutpie has its low-rank metric and a gradient in NumPy,
which needs no compilation. The compilation of an engine is what its first fit takes more than later
ones; the cache of compiled routines is empty.

``accuracy`` prints, for each posterior, the error of means (root mean square over coordinates, and
the worst) and of the 5, 50 and 95 % points, in posterior standard deviations; the seconds of
compilation and of a run; seconds to an error of .03 of the means, without and with compilation, and
to .05 of the points; and paired ratios to the default engine. ``passes`` divides the time of each
engine by that of its likelihood alone: the same gradients, in the same batches, in bare NumPy.
``growth`` prints seconds by rows and by features, and exponents. ``thinning`` thins 20,000 draws to
a hundred, beside goodpoints and stein-thinning (`thinning.py` has more methods).

Usage::

    pip install numpyro blackjax nutpie arviz goodpoints stein-thinning
    export SKSTEIN_DATA=folder OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    python examples/benchmarks/peers.py accuracy passes growth thinning

SKSTEIN_DATA names a folder with ``gold/*.npz`` and ``gold/quantiles/*.npz``. Peers that are not
installed are left out.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import time
import warnings
from collections import Counter

CACHE = tempfile.TemporaryDirectory()
os.environ["NUMBA_CACHE_DIR"] = CACHE.name  # empty
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np  # noqa: E402
from gold import accuracy, load, model_of, quantile_errors  # noqa: E402
from scipy.special import expit  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

from skstein import BayesianLogisticRegression, ParticlePosterior  # noqa: E402
from skstein.outcomes import Bernoulli  # noqa: E402

NAMES = ("breast_cancer", "german", "covertype5k", "mnist8v6pca50")
ENGINES = ("mcmc", "svgd", "fwss", "pmfvb")
N_WARMUP, N_DRAWS = 300, 1000
MEANS, POINTS = 0.03, 0.05  # errors to reach


def timed(function):
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def installed(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not installed, left out: {' '.join(missing)}")
    return not missing


# Each peer is a function of design (with a column of ones), labels and prior sd. It returns the
# seconds of compilation, and a function of a seed that returns seconds of warm-up, seconds of
# draws, and the draws.


def jax_density(A, y, sd):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    A, y = jnp.asarray(A), jnp.asarray(y, float)

    def log_density(theta):
        eta = A @ theta
        return (
            jnp.vdot(y, eta) - jnp.logaddexp(0.0, eta).sum() - 0.5 * jnp.vdot(theta, theta) / sd**2
        )

    return log_density


def compiled_ahead(warm_up, draw):
    """Compile both; ``warm_up`` takes a key, ``draw`` its result and returns the draws."""
    import jax

    def ahead(function, argument):
        return jax.jit(function).lower(argument).compile()

    start = time.process_time()
    key = jax.random.key(0)
    warm_up, draw = ahead(warm_up, key), ahead(draw, jax.eval_shape(warm_up, key))
    seconds = time.process_time() - start

    def run(seed):
        warm, state = timed(lambda: jax.block_until_ready(warm_up(jax.random.key(seed))))
        drawn, draws = timed(lambda: np.asarray(draw(state)))
        return warm, drawn, draws

    return seconds, run


def numpyro_nuts(A, y, sd):
    import jax
    import jax.numpy as jnp
    from numpyro.infer.hmc import hmc

    log_density = jax_density(A, y, sd)
    init, step = hmc(lambda theta: -log_density(theta), algo="NUTS")

    def warm_up(key):
        state = init(jnp.zeros(A.shape[1]), N_WARMUP, dense_mass=True, rng_key=key)
        return jax.lax.fori_loop(0, N_WARMUP, lambda _, state: step(state), state)

    def draw(state):
        def one(state, _):
            state = step(state)
            return state, state.z

        return jax.lax.scan(one, state, length=N_DRAWS)[1]

    return compiled_ahead(warm_up, draw)


def blackjax_nuts(A, y, sd):
    import blackjax
    import jax
    import jax.numpy as jnp

    log_density = jax_density(A, y, sd)
    adaptation = blackjax.window_adaptation(
        blackjax.nuts,
        log_density,
        is_mass_matrix_diagonal=False,
        adaptation_info_fn=lambda *_: None,
    )

    def warm_up(key):
        first, second = jax.random.split(key)
        (state, parameters), _ = adaptation.run(first, jnp.zeros(A.shape[1]), N_WARMUP)
        return state, parameters, second

    def draw(warm):
        state, parameters, key = warm
        step = blackjax.nuts(log_density, **parameters).step

        def one(state, key):
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, N_DRAWS))[1]

    return compiled_ahead(warm_up, draw)


def nutpie_nuts(A, y, sd):
    import nutpie

    def density_and_gradient(theta):
        eta = A @ theta
        value = y @ eta - np.logaddexp(0.0, eta).sum() - 0.5 * theta @ theta / sd**2
        return value, (y - expit(eta)) @ A - theta / sd**2

    dim = A.shape[1]
    model = nutpie.compiled_pyfunc.from_pyfunc(
        dim,
        lambda: density_and_gradient,
        lambda *_: lambda theta: {"theta": theta},
        [np.dtype(float)],
        [(dim,)],
        ["theta"],
    )

    def sample(draws, tune, seed):
        return nutpie.sample(
            model,
            draws=draws,
            tune=tune,
            seed=seed,
            chains=1,
            cores=1,
            low_rank_modified_mass_matrix=True,
            progress_bar=False,
        )

    sample(10, 10, 0)  # imports the rest

    def run(seed):
        seconds, trace = timed(lambda: sample(N_DRAWS, N_WARMUP, seed))
        gradients = [
            int(part["n_steps"].sum()) for part in (trace.warmup_sample_stats, trace.sample_stats)
        ]
        warm = seconds * gradients[0] / sum(gradients)
        return warm, seconds - warm, np.asarray(trace.posterior["theta"])[0]

    return 0.0, run


PEERS = {"numpyro": numpyro_nuts, "blackjax": blackjax_nuts, "nutpie": nutpie_nuts}


def root_mean_square(x):
    return np.sqrt(np.mean(np.square(x)))


class Record:
    """Runs of one method: what they cost and how wrong they were."""

    def __init__(self, compilation=0.0, per_draw=False):
        self.compilation, self.per_draw = compilation, per_draw
        self.warm, self.seconds, self.errors, self.points = [], [], [], []

    def add(self, label, warm, seconds, posterior, name, gold):
        self.warm.append(warm)
        self.seconds.append(seconds)
        self.errors.append(accuracy(posterior, gold)[0])
        points = quantile_errors(posterior, name, gold)
        self.points.append(np.nan if points is None else points[0])
        error = root_mean_square(self.errors[-1])
        print(f"    {label}: {warm + seconds:.2f} s, error of means {error:.3f}", flush=True)

    def times_to(self, errors, goal):
        """Seconds of each run to an error of ``goal``; NaN if an engine misses it."""
        found = root_mean_square(errors)
        if self.per_draw:
            return np.add(self.warm, np.multiply(self.seconds, (found / goal) ** 2))
        return np.add(self.warm, self.seconds) + (0.0 if found <= goal else np.nan)

    def to_means(self):
        return self.times_to(self.errors, MEANS)

    def to_points(self):
        return self.times_to(self.points, POINTS)


def compare(name, seeds, max_seconds):
    """Records by method and the seconds of scikit-learn; methods run in turn."""
    name = f"{name}_logistic"
    gold = load(name)
    if gold is None:
        print(f"{name}: absent, set SKSTEIN_DATA to a folder that holds gold/{name}.npz")
        return
    X, y, sd = gold["X_std"], gold["y"], float(gold["prior_sd"])
    A = np.column_stack([np.ones(len(X)), X])
    print(f"\n{name}: {len(X)} rows, {A.shape[1]} coordinates", flush=True)
    records, runs = {}, {}
    for peer, prepare in PEERS.items():
        if installed(peer):
            compilation, runs[peer] = prepare(A, y.astype(float), sd)
            records[peer] = Record(compilation, per_draw=True)
    for engine in ENGINES:
        records[engine] = Record(timed(lambda: model_of(name, gold, engine, 0).fit(X, y))[0])  # noqa: B023
    point, unit = LogisticRegression(C=sd**2), []
    start = time.process_time()
    for seed in seeds:
        for peer, run in runs.items():
            warm, seconds, draws = run(seed)
            names = [str(k) for k in range(A.shape[1])]
            records[peer].add(
                peer, warm, seconds, ParticlePosterior(draws, names=names), name, gold
            )
        for engine in ENGINES:
            seconds, model = timed(lambda: model_of(name, gold, engine, seed).fit(X, y))  # noqa: B023
            records[engine].add(engine, 0.0, seconds, model.posterior_, name, gold)
        unit += [timed(lambda: point.fit(X, y))[0] for _ in range(5)]
        if time.process_time() - start > max_seconds:
            break
    for engine in ENGINES:
        first = records[engine].compilation
        records[engine].compilation = max(first - np.median(records[engine].seconds), 0.0)
    print_accuracy(records, np.median(unit))


def print_accuracy(records, unit):
    n_runs = len(records[ENGINES[0]].seconds)
    print(f"medians of {n_runs} runs in turn; LogisticRegression {1000 * unit:.1f} ms = 1 lr")
    print(
        f"{'':10}{'means':>7}{'worst':>7}{'points':>8}{'compile':>9}{'run':>8}"
        f"{'to means':>10}{'compiled':>10}{'to points':>11}{'lr':>8}"
    )
    for method, record in records.items():
        to_means, to_points = np.median(record.to_means()), np.median(record.to_points())
        print(
            f"{method:10}{root_mean_square(record.errors):7.3f}{np.abs(record.errors).max():7.3f}"
            f"{root_mean_square(record.points):8.3f}{record.compilation:9.2f}"
            f"{np.median(np.add(record.warm, record.seconds)):8.3f}{to_means:10.3f}"
            f"{to_means + record.compilation:10.3f}{to_points:11.3f}{to_means / unit:8.0f}"
        )
    ways = {
        "means": Record.to_means,
        "means, compiled": lambda record: record.to_means() + record.compilation,
        "points": Record.to_points,
    }
    default = records[ENGINES[0]]
    for label, times in ways.items():
        ratios = {
            method: np.median(times(record) / times(default)) for method, record in records.items()
        }
        text = ", ".join(f"{method} {ratio:.2f}" for method, ratio in ratios.items())
        print(f"to the same error of {label}, over {ENGINES[0]}: {text}")
    sys.stdout.flush()


def bare_seconds(X, y, m, value, score, row_blocks=(256, 1024, 4096)):
    """Seconds of one pass of ``m`` particles over the rows: products, one exponential, products."""
    A = np.column_stack([np.ones(len(X)), X])
    theta = np.random.default_rng(0).normal(scale=0.1, size=(m, A.shape[1]))

    def one_pass(size):
        total, gradient = np.zeros(m), np.zeros_like(theta)
        for start in range(0, len(A), size):
            block, labels = A[start : start + size], y[start : start + size]
            eta = theta @ block.T
            if value:
                total += eta @ labels
            np.exp(eta, out=eta)
            eta += 1.0
            if value:
                total -= np.log(eta).sum(axis=1)
            if score:
                np.divide(-1.0, eta, out=eta)
                eta += 1.0  # probabilities
                gradient += (labels - eta) @ block

    repeats = max(3, int(1e6 / len(A) / m))
    return min(
        timed(lambda: [one_pass(size) for _ in range(repeats)])[0] / repeats  # noqa: B023
        for size in row_blocks
        for _ in range(3)
    )


def print_passes(name):
    name = f"{name}_logistic"
    gold = load(name)
    X, y = gold["X_std"], gold["y"].astype(float)
    terms, counted = Bernoulli.terms, Counter()

    def counting(self, eta, labels, weights, value, score):
        counted[len(eta[0]), bool(value), bool(score)] += len(labels)
        return terms(self, eta, labels, weights, value, score)

    Bernoulli.terms = counting
    for engine in ENGINES:
        counted.clear()
        seconds = [timed(lambda: model_of(name, gold, engine, 0).fit(X, y))[0] for _ in range(3)]  # noqa: B023
        passes = {kind: n / len(X) / len(seconds) for kind, n in counted.items()}
        bare = sum(n * bare_seconds(X, y, *kind) for kind, n in passes.items())
        print(
            f"{name:24}{engine:8}{min(seconds):8.3f} s, {min(seconds) / bare:.2f} of "
            f"its {sum(passes.values()):.0f} bare passes",
            flush=True,
        )
    Bernoulli.terms = terms


def rows_of(n, p):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    coef = rng.standard_normal(p) / np.sqrt(p)
    return X, (rng.random(n) < expit(X @ coef)).astype(float)


def print_growth(by_rows, by_features, max_seconds=40):
    """Seconds by (n, p), as far as a fit is expected to take no more than ``max_seconds``."""
    methods = {
        engine: lambda X, y, engine=engine: timed(
            lambda: BayesianLogisticRegression(engine, random_state=0).fit(X, y)
        )[0]
        for engine in ENGINES
    }
    for peer, prepare in PEERS.items():
        if installed(peer):
            methods[peer] = lambda X, y, prepare=prepare: sum(
                prepare(np.column_stack([np.ones(len(X)), X]), y, 1.0)[1](0)[:2]
            )
    for title, grid in (("rows", by_rows), ("features", by_features)):
        sizes = [n if title == "rows" else p for n, p in grid]
        print(f"\nseconds by {title}: {sizes}")
        for method, seconds_of in methods.items():
            found = []
            for i, (n, p) in enumerate(grid):
                if i and found[-1] * sizes[i] / sizes[i - 1] > max_seconds:
                    break
                found.append(seconds_of(*rows_of(n, p)))
            slopes = np.diff(np.log(found)) / np.diff(np.log(sizes[: len(found)]))
            print(
                f"{method:10}"
                + "".join(f"{seconds:9.2f}" for seconds in found)
                + "   exponents"
                + "".join(f"{slope:6.2f}" for slope in slopes),
                flush=True,
            )


def print_thinning(name):
    import thinning

    shown = ("every", "balanced", "OnlineKSDThinner", "stein-thinning smpcov", "goodpoints")
    methods = thinning.METHODS | thinning.peers()
    methods = {label: method for label, method in methods.items() if label.startswith(shown)}
    name = f"{name}_logistic"
    rows, chain_seconds = thinning.compare(name, load(name), methods, [0, 1, 2])
    print(f"\n{name}: 20,000 draws, made in {chain_seconds:.2f} s, thinned to a hundred")
    print(f"{'':24}{'means':>8}{'sd':>8}{'points':>8}{'seconds':>9}")
    for label, row in rows.items():
        print(
            f"{label:24}{row['mean_error']:8.3f}{row['sd']:8.3f}{row['coordinates']:8.3f}"
            f"{row['seconds']:9.3f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = ("accuracy", "passes", "growth", "thinning")
    parser.add_argument("parts", nargs="*", default=parts, choices=parts)
    parser.add_argument("--names", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(10)))
    parser.add_argument(
        "--seconds", type=float, default=120, help="no further seed of a posterior after so many"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.names:
        if "accuracy" in arguments.parts:
            compare(name, arguments.seeds, arguments.seconds)
        if "passes" in arguments.parts:
            print_passes(name)
        if "thinning" in arguments.parts:
            print_thinning(name)
    if "growth" in arguments.parts:
        sizes = [(n, 20) for n in (1000, 10_000, 100_000)]
        print_growth(sizes, [(5000, p) for p in (5, 20, 80, 320)])


if __name__ == "__main__":
    main()
