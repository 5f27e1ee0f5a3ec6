"""Exports trained networks for ONNX Runtime and LiteRT, and runs them."""

import os

# ONNX Runtime must be imported after this. Otherwise, it stores a device id in
# the user's cache folder and contacts its vendor's server.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
