"""Scheme discovery: not part of this version. Nothing else may import it."""
