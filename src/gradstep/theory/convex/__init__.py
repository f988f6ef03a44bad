"""Other losses and penalties of the fit, by the ridge fit to which they amount."""
