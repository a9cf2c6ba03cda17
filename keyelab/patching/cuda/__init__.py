"""Reading CUDA sources: functions, what their expressions can be, how many threads they start."""
