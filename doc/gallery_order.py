"""The order of the gallery: displays, stories, then the papers' experiments by name."""

FIRST = (
    "displays",
    "breast_cancer_uncertainty",
    "credit",
    "counts",
    "claims",
    "extrapolation",
    "networks",
    "noise",
    "model_choice",
    "prior_knowledge",
    "drift",
    "radon",
    "eight_schools",
    "grades",
    "probit_wine",
    "softmax_digits",
    "sparse_text",
)


class StoriesFirst:
    """Sort key of sphinx-gallery."""

    def __init__(self, folder):
        pass

    def __call__(self, filename):
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (FIRST.index(name) if name in FIRST else len(FIRST), name)
