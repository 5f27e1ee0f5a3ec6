"""Tagging of words, such as entities: data, windows, models, scores."""
