"""Builds a model's input sequences from token ids. No TensorFlow."""
