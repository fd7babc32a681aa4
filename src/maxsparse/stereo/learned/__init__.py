"""The learned part of ``auto``: a network over (light, reading) pairs, its data, its training and its file."""
