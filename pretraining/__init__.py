"""Turns text into records of pre-training instances, and trains on them."""
