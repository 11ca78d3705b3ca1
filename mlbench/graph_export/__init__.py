"""Graphs of a workload as files that other programs load: ONNX, with what a server needs beside them."""
