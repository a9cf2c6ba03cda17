"""A sealed record in the words of others: RO-Crate, and in-toto statements. See docs/export.md."""
