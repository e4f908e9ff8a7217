"""What the model sees: ordered, bounded, explainable."""
