"""The llama-server lifecycle and its client."""
