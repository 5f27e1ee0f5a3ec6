"""Tagging of words (named entities, parts of speech): data, models, scores."""
