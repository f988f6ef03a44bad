"""The rows after the step: groups of neurons, and the covariance of what the spike leaves."""
