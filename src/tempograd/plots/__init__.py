"""Static pictures: each is a small record, and a drawing of it."""
