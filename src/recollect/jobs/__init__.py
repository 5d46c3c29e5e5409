"""Work that happens beside requests."""
