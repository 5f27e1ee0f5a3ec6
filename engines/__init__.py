"""Exports trained networks for ONNX Runtime and LiteRT, and runs them."""

import os

# If this is not set before its import, ONNX Runtime stores a device id in the
# user's cache folder and contacts its vendor's server.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
