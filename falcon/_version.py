"""The version, read by setup.py without importing falcon."""

__version__ = "0.1.0"
