"""Experiments behind the figures and tables of Cui et al. 2024."""
