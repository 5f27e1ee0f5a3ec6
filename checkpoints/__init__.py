"""Reads and writes TF1, Hugging Face and Model Garden checkpoints."""
