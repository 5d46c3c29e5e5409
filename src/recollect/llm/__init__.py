"""Structured answers from a model: checked, bounded in time and tokens, and written down."""
