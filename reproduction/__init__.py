"""Downloads models and data, runs published experiments, reports results."""
