"""Turns records into batches: TFRecord files, caches, pipeline."""
