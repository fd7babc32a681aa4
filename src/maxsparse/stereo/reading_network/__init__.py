"""The learned part of ``auto``: a network over (light, reading) pairs, its training data, training and model file."""
