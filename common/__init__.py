"""Errors, atomic files, JSON, TFRecords, worker processes: nothing of BERT."""
