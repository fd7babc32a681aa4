"""Robust fits of normals to readings, on which the methods and the reading network build."""
