"""Answers texts with trained models: in Python, in exports and over HTTP."""
