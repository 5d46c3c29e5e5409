"""Facts about users and companies, one for each slug, each with its memory in the engine."""
