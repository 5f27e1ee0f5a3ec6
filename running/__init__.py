"""The surroundings of a run: schedulers, repetitions, trackers and reports.

Each folder is an extension point: its __init__.py says what a file defines, and
nothing else names the files. To take a capability out, delete its file.
"""
