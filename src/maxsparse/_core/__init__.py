"""Shared foundations: input checks, compiled building blocks, threads, progress bars, model files."""
