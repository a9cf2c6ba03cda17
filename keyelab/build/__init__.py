"""The CMake plan and its run."""
