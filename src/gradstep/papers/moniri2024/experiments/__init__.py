"""Experiments behind the figures and tables of Moniri et al. 2024."""
