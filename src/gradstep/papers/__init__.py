"""Each paper's formulas in its own notation, and nothing else."""
