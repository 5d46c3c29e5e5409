"""What finds memory again: embedding, indexing, search."""
