"""Vectors, similarity and the attention page."""
