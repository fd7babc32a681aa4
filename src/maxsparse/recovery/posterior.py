"""The most probable supports of many signals, kept as one ragged array, and what a user asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray, check_number
from maxsparse.recovery.places import matched, places_of_draws

__all__ = ["CredibleSet", "Posterior"]

UNLISTED = 1e-3  # probability of an atom in supports that are not listed, from which on it counts

Support = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CredibleSet:
    """Atoms of which the data say that one is in the support, but not which.

    Attributes
    ----------
    atoms : ndarray of int
        Most probable first.
    probability : ndarray
        Of each of them to be the one; more than 1 in sum where it may be two of them.
    names : tuple of str or None
        Of the atoms, if they have names.
    """

    atoms: Support
    probability: NDArray[np.float64]
    names: tuple[str, ...] | None = None

    def named(self, names: tuple[str, ...] | None) -> CredibleSet:
        """Return this set with its part of the names (m,) of all atoms."""
        return self if names is None else replace(self, names=tuple(names[a] for a in self.atoms))

    def __repr__(self) -> str:
        shown = zip(self.names or self.atoms, self.probability, strict=True)
        return f"CredibleSet({', '.join(f'{a}: {p:.2f}' for a, p in shown)})"


@dataclass(frozen=True, eq=False)
class Posterior:
    """Supports of N signals with their probabilities, most probable first.

    Attributes
    ----------
    first : ndarray of shape (N + 1,), int
        Supports first[i] to first[i + 1] belong to signal i.
    probability : ndarray of shape (P,)
    begin : ndarray of shape (P + 1,), int
        Atoms begin[p] to begin[p + 1] are those of support p.
    atoms : ndarray of int32
    drawn : Posterior or None
        Supports that were drawn from the posterior, of signals whose probability is spread over many more than are
        listed; equally probable, none for other signals.
    """

    first: NDArray[np.int64]
    probability: NDArray[np.float64]
    begin: NDArray[np.int64]
    atoms: NDArray[np.int32]
    drawn: Posterior | None = None

    @classmethod
    def of(
        cls, probability: NDArray[np.float64], size: NDArray[np.int64], atoms: NDArray[np.int32], least: float = 1e-6
    ) -> Posterior:
        """Pack supports (N, C) with their atoms (N, C, most), leaving out what is less probable than `least`.

        The first of every signal is kept always.
        """
        kept = probability > least
        kept[:, :1] = True
        sizes = size[kept]
        inside = np.arange(atoms.shape[2]) < sizes[:, None]
        first = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return cls(first, probability[kept], np.concatenate([[0], np.cumsum(sizes)]), atoms[kept][inside])

    def with_draws(self, size: NDArray[np.int64], atoms: NDArray[np.int32]) -> Posterior:
        """Add drawn supports (N, D) with their atoms (N, D, most); sizes are −1 where none was drawn."""
        kept = size >= 0
        if not kept.any():
            return self
        count, sizes = kept.sum(axis=1), size[kept]
        inside = np.arange(atoms.shape[2]) < sizes[:, None]
        bounds = [np.concatenate([[0], np.cumsum(part)]) for part in (count, sizes)]
        return replace(
            self,
            drawn=Posterior(bounds[0], np.repeat(1.0 / np.maximum(count, 1), count), bounds[1], atoms[kept][inside]),
        )

    @classmethod
    def of_supports(cls, support: NDArray[np.bool_], probability: NDArray[np.float64]) -> Posterior:
        """Give every signal one support (N, m) with a probability (N,)."""
        rows, atoms = np.nonzero(support)
        begin = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(support)))])
        return cls(np.arange(len(support) + 1), probability.astype(np.float64), begin, atoms.astype(np.int32))

    @classmethod
    def join(cls, parts: Sequence[Posterior]) -> Posterior:
        """Put signals behind each other."""
        if not parts:
            return cls.empty(0)
        supports = np.concatenate([np.diff(part.first) for part in parts])
        sizes = np.concatenate([np.diff(part.begin) for part in parts])
        drawn = None
        if any(part.drawn is not None for part in parts):
            drawn = cls.join([cls.empty(len(part)) if part.drawn is None else part.drawn for part in parts])
        return cls(
            np.concatenate([[0], np.cumsum(supports)]),
            np.concatenate([part.probability for part in parts]),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.concatenate([part.atoms for part in parts]),
            drawn,
        )

    @classmethod
    def empty(cls, N: int) -> Posterior:
        """Return no supports, of N signals."""
        return cls(np.zeros(N + 1, np.int64), np.empty(0), np.zeros(1, np.int64), np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, rows: Any) -> Posterior:
        """Return the supports of some of the signals."""
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        supports, first = _ranges(self.first, chosen)
        atoms, begin = _ranges(self.begin, supports)
        drawn = None if self.drawn is None else self.drawn[rows]
        return Posterior(first, self.probability[supports], begin, self.atoms[atoms], drawn)

    def alternatives(self, i: int) -> list[tuple[Support, float]]:
        """Return the supports of signal i with their probabilities, most probable first."""
        return [
            (np.sort(self.atoms[self.begin[p] : self.begin[p + 1]]).astype(np.intp), float(self.probability[p]))
            for p in range(self.first[i], self.first[i + 1])
        ]

    def credible_sets(
        self, i: int, cosines: FloatArray, inclusion: FloatArray, level: float = 0.95
    ) -> list[CredibleSet]:
        """Return, for every atom of the most probable support, the atoms that may stand in its place.

        Every other support is matched to the most probable one: common atoms first, then the most similar ones. What is
        left over makes sets of its own, which are reported only if some atom there is more probable than none. Where
        probability is spread over more supports than are listed, those that were drawn are counted instead, places that
        are empty too often are put together, and atoms that were never drawn join the most similar place.

        Parameters
        ----------
        i : int
            Number of the signal.
        cosines : ndarray of shape (m, m)
            Absolute cosines between atoms.
        inclusion : ndarray of shape (m,)
            Probability of every atom, over all supports.
        level : float, default=0.95
            Probability that a set must hold.

        Returns
        -------
        sets : list of CredibleSet
            Smallest sets of atoms that hold at least `level` of the probability that there is an atom in that place.
        """
        level = check_number(level, "level", low=0.0, high=1.0)
        supports = self.alternatives(i)
        rest = np.array(inclusion, dtype=np.float64)
        places: list[dict[int, float]] = [{} for _ in supports[0][0]]
        anchors = [int(a) for a in supports[0][0]]
        if self.drawn is not None and self.drawn.first[i] < self.drawn.first[i + 1]:
            draws = [[int(a) for a in support] for support, _ in self.drawn.alternatives(i)]
            return [_smallest(place, level) for place in places_of_draws(anchors, draws, rest, cosines, level)]
        K = len(anchors)
        for support, probability in supports:
            # The places of the most probable support are filled first, others take what is left over.
            pairs = matched(anchors[:K], [int(a) for a in support], cosines)
            over = [atom for place, atom in pairs if place >= K]
            pairs = [pair for pair in pairs if pair[0] < K]
            pairs += [(K + place, atom) for place, atom in matched(anchors[K:], over, cosines)]
            for place, atom in pairs:
                if place >= len(places):
                    places.append({})
                    anchors.append(atom)
                places[place][atom] = places[place].get(atom, 0.0) + probability
            rest[support] -= probability
        _add_unlisted(places, anchors, rest, cosines)
        return [_smallest(place, level) for place in places if sum(place.values()) > 0.5]


def _ranges(bounds: NDArray[np.int64], chosen: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers in the chosen ranges bounds[i] to bounds[i + 1], one after the other, and the new bounds."""
    counts = bounds[chosen + 1] - bounds[chosen]
    new = np.concatenate([[0], np.cumsum(counts)])
    return np.repeat(bounds[chosen] - new[:-1], counts) + np.arange(new[-1]), new


def _add_unlisted(
    places: list[dict[int, float]], anchors: list[int], rest: NDArray[np.float64], cosines: FloatArray
) -> None:
    """Let atoms with a probability `rest` in other supports share what no listed atom has of the most similar place."""
    atoms = np.flatnonzero(rest > UNLISTED)
    if not len(anchors) or not len(atoms):
        return
    similar = cosines[np.ix_(atoms, np.array(anchors))].argmax(axis=1)
    for number, place in enumerate(places):
        own = atoms[similar == number]
        free = max(0.0, 1.0 - sum(place.values()))
        factor = min(1.0, free / max(float(rest[own].sum()), 1e-300))
        for atom in own:
            place[int(atom)] = place.get(int(atom), 0.0) + factor * float(rest[atom])


def _smallest(place: dict[int, float], level: float) -> CredibleSet:
    atoms = np.array(sorted(place, key=lambda atom: -place[atom]), dtype=np.intp)
    probability = np.array([place[int(atom)] for atom in atoms])
    enough = int(np.searchsorted(np.cumsum(probability), level * probability.sum() - 1e-12)) + 1
    return CredibleSet(atoms[:enough], probability[:enough])
