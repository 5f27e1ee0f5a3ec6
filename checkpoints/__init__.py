"""Reads and writes weights of TF1, Hugging Face and Model Garden."""
