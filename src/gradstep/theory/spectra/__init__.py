"""Eigenvalues of weights and features after the step, with their outliers."""
