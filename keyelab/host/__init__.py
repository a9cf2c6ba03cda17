"""What this machine is: probes, and checks with a remedy each."""
