"""The tokenizer in the graph, SavedModels and an HTTP server."""
