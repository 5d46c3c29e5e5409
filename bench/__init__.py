"""Measures what the README promises. Ratios within one run, since machines differ and are noisy."""
