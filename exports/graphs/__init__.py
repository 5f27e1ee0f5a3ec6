"""ONNX graphs of networks that differ from BERT's in more than names.

A file has the name of a variant and defines `Network`, a subclass of
onnx_graph.Network.
"""
