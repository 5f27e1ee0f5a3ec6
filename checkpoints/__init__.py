"""Weights of any program in and out: TF1, Hugging Face, Model Garden."""
