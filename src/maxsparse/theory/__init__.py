"""What the paper proves, computable: coherence, and what shared layer weights may change."""

from maxsparse.theory.coherence import coherence, cumulative_coherence
from maxsparse.theory.precondition import precondition

__all__ = ["coherence", "cumulative_coherence", "precondition"]
