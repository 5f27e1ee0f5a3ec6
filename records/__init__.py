"""Writes TFRecord files, caches them, and turns their records into batches."""
