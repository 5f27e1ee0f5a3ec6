"""Records -> batches: TFRecord files, caches, the pipeline, packed rows."""
