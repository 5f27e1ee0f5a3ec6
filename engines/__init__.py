"""Exports trained networks for ONNX Runtime and LiteRT, and runs them."""

import os

# Set before ONNX Runtime is imported, which would otherwise store a device id
# in the user's cache folder and contact its vendor's server.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
