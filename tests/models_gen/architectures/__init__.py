"""Architectures of neural networks for tests/models_gen/make_exported.py, one file for each field."""
