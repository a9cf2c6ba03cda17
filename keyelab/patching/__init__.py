"""The source tree: obtain, plan, apply, verify, revert."""
