"""One gradient step: the laws of its samples, of a row after it, and of the network's own output."""
