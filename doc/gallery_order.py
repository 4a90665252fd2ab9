"""The order of examples within their sections; those not named come last."""

ORDER = (
    "displays",
    "breast_cancer_uncertainty",
    "model_choice",
    "extrapolation",
    "credit",
    "softmax_digits",
    "probit_wine",
    "prior_knowledge",
    "noise",
    "counts",
    "claims",
    "grades",
    "radon",
    "eight_schools",
    "gbp_usd",
    "networks",
    "curve_subspace",
    "sparse_gp",
    "sparse_text",
    "lda_topics",
    "drift",
    "covertype",
    "pmd_mixture",
    "pmd_digits",
    "pmfvb_logistic",
    "pmfvb_blocks",
    "pmfvb_factors",
    "fwss_toy",
    "stein_points",
    "thinning_mixture",
    "goodwin",
)


class AsTold:
    """Sort key of sphinx-gallery."""

    def __init__(self, folder):
        pass

    def __call__(self, filename):
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
