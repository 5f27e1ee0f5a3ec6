"""Text -> ids and sequences of the model: NumPy alone, no TensorFlow graph."""
