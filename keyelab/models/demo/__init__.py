"""The packaged demo model: its words, its training data, its training, its conversion, its score.

Only the two GGUF files are needed to use the model; this code needs the extra `[train]`.
"""
