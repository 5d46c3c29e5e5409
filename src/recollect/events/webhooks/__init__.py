"""Webhooks out: what happens, told to endpoints that a workspace names."""
