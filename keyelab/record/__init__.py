"""What a run leaves behind: notebooks, facts, run.json and a page that reads offline."""
