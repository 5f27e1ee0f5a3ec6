"""Batches -> trained weights: harness, loop, evaluation, run folders, flags."""
