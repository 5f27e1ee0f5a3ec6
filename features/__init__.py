"""Vectors, similarity, the attention page and plots."""
