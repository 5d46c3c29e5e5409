"""Text to vectors: a sentence encoder on this machine, an endpoint, or a small table of words."""
