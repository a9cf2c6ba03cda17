"""Server logs and timings as tables and plots."""
