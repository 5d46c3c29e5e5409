"""Facts, distilled from what was said."""
