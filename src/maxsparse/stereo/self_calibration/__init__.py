"""Lights from the photographs of the object itself: directions and intensities, or intensities alone."""
