"""Text -> instances -> records for masked-LM and next-sentence training."""
