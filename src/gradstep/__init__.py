"""What one gradient step on the first layer does to a two-layer network."""
