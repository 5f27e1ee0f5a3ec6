"""Exports of a trained network to ONNX Runtime and LiteRT, and their use."""

import os

# This must precede the import of ONNX Runtime, which otherwise writes an id of
# the device below the user's cache folder and looks up a host of its maker.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
