"""Runs exported networks with ONNX Runtime and LiteRT."""

import os

# Set before ONNX Runtime is imported, which would otherwise store a device id
# in the user's cache folder and contact its vendor's server.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
