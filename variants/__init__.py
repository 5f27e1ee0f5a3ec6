"""Models related to BERT, each a small subclass of its encoder."""
