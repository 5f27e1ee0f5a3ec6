"""Turns texts into answers: every head, with any engine or network."""
