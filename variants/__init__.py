"""Models related to BERT: small subclasses of its encoder, and tokenizers."""
