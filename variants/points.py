"""The extension point of encoders: variants/tops. No TensorFlow."""

from common import extension_points

_PACKAGE = __name__.rpartition(".")[0]
TOPS = extension_points.Point("on_top", f"{_PACKAGE}.tops", ("NAME", "on"))
