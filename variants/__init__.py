"""Relatives of BERT: one small subclass of its encoder each."""
