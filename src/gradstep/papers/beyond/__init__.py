"""Figures beyond the three papers (this project)."""
