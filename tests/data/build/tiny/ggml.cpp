int backends() { return 1; }
