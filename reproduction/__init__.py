"""Downloads models and data, runs published experiments, and reports them."""
