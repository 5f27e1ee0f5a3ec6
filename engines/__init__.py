"""A trained network in the format of another program, and run by it."""
