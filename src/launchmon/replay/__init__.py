"""A run looked at as it was at any moment of its recording."""
