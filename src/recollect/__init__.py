"""Recollect: one memory server for AI applications."""
