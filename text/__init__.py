"""Turns text into ids and sequences for a model, with NumPy alone."""
