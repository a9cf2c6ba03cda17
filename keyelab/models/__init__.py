"""Getting weights and proving them."""
