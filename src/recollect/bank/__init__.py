"""The bank: small namespaced JSON values per user, such as preferences and recent suggestions."""
