"""Errors, atomic files, JSON, flags, worker processes: nothing of BERT."""
