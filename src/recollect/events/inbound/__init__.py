"""Webhooks in: what Stripe and mem0 tell us."""
