"""A copy of a record that is safe to publish."""
