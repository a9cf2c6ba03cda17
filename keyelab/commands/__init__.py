"""Commands of the shell that need more than a few lines: one a file, registered in cli.py."""
