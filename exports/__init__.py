"""Writes and loads exports: SavedModel, ONNX and LiteRT folders."""
