"""Loads a model for answers: in Python, in scripts, as a Keras layer."""
