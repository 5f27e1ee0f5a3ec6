"""Turns texts into answers: in Python, in exported models and over HTTP."""
