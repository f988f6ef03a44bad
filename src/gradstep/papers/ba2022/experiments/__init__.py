"""Experiments behind the figures and tables of Ba et al. 2022."""
