"""Experiments behind the figures beyond the three papers."""
