"""Known failures and their remedies."""
