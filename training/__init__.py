"""Trains weights on batches: harness, loop, evaluation, run folders, flags."""
