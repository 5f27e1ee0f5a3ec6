"""A trained network in the format of another program, and run by it."""

import os

# Before ONNX Runtime is imported, which else writes an id of the device below
# the user's cache folder and looks up a host of its maker.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
