"""The plain nouns that every other room speaks of."""
