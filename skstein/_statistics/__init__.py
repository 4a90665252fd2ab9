"""Statistics of arrays, which know no model: quantiles, CRPS, importance weights, resampling."""
