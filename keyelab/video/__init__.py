"""Frames, prompts and demo clips."""
