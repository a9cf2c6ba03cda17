"""Two records held against each other: what each says, what differs, and in which order."""
