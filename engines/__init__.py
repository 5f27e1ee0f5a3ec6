"""Exports trained networks for ONNX Runtime and LiteRT, and runs them."""

import os

# This must precede the import of ONNX Runtime, which otherwise stores a device
# id in the user's cache folder and contacts a server of its vendor.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
