"""Small things that every layer uses: secrets, paging, text."""
