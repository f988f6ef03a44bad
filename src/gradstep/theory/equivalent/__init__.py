"""The ridge fit: features given the projection on the spike, the fixed point, its errors and their certificate."""
