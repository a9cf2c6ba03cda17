"""keyelab: a bare server to a verified, measured llama.cpp deployment of Keye-VL-2.0-30B-A3B."""

__version__ = "0.1.0"
