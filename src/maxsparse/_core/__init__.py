"""What every part of the package builds on: input checks, compiled building blocks, threads, progress bars."""
