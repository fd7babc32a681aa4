"""Places of a support that different atoms may fill: supports matched to the most probable one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray

__all__ = ["matched", "places_of_draws"]


def matched(anchors: list[int], support: list[int], cosines: FloatArray) -> list[tuple[int, int]]:
    """Pair the atoms of a support with places; an atom that fits nowhere gets the next new place.

    Parameters
    ----------
    anchors : list of int
        The atom of every place.
    support : list of int
    cosines : ndarray of shape (m, m)
        Absolute cosines between atoms; the diagonal does not matter.

    Returns
    -------
    pairs : list of (place, atom)
    """
    pairs = [(anchors.index(atom), atom) for atom in support if atom in anchors]
    free = [place for place in range(len(anchors)) if anchors[place] not in support]
    rest = [atom for atom in support if atom not in anchors]
    while rest and free:
        similar = cosines[np.ix_(rest, [anchors[place] for place in free])]
        a, p = np.unravel_index(similar.argmax(), similar.shape)
        pairs.append((free.pop(int(p)), rest.pop(int(a))))
    return pairs + [(len(anchors) + number, atom) for number, atom in enumerate(rest)]


@dataclass(eq=False)
class _Place:
    """Where atoms stand for each other."""

    anchor: int
    atoms: dict[int, float]  # with their probabilities
    filled: NDArray[np.bool_]  # (D,), in which draws

    def add(self, atom: int, probability: float) -> None:
        self.atoms[atom] = self.atoms.get(atom, 0.0) + probability

    def join(self, other: _Place) -> None:
        for atom, probability in other.atoms.items():
            self.add(atom, probability)
        self.filled |= other.filled

    @property
    def share(self) -> float:
        return float(self.filled.mean())


def places_of_draws(
    anchors: list[int], draws: list[list[int]], inclusion: FloatArray, cosines: FloatArray, level: float
) -> list[dict[int, float]]:
    """Return places that are filled in a share `level` of the supports drawn, as far as that is possible.

    Those that are filled less often are put together, the most similar ones first; what is left of them, if it is
    filled in less than one half, joins the most similar place.

    Parameters
    ----------
    anchors : list of int
        Atoms of the most probable support.
    draws : list of D lists of int
        Supports.
    inclusion : ndarray of shape (m,)
        Probability of every atom: atoms that were not drawn join the most similar places with it.
    cosines : ndarray of shape (m, m)
    level : float

    Returns
    -------
    places : list of dict
        Probability by atom.
    """
    D = len(draws)
    places = [_Place(anchor, {}, np.zeros(D, dtype=bool)) for anchor in anchors]
    unseen = np.array(inclusion, dtype=np.float64)
    for number, support in enumerate(draws):
        for position, atom in matched([place.anchor for place in places], support, cosines):
            if position >= len(places):
                places.append(_Place(atom, {}, np.zeros(D, dtype=bool)))
            places[position].add(atom, 1.0 / D)
            places[position].filled[number] = True
        unseen[support] = 0.0
    if not places:
        return []
    for rare in np.flatnonzero(unseen).tolist():
        _nearest(rare, places, cosines).add(rare, float(unseen[rare]))
    strong = [place for place in places if place.share >= level]
    weak = sorted((place for place in places if place.share < level), key=lambda place: -place.share)
    while len(weak) > 1:
        least = weak.pop()
        _nearest(least.anchor, weak, cosines).join(least)
        strong += [place for place in weak if place.share >= level]
        weak = sorted((place for place in weak if place.share < level), key=lambda place: -place.share)
    for place in weak:
        if place.share > 0.5 or not strong:
            strong.append(place)
        else:
            _nearest(place.anchor, strong, cosines).join(place)
    return [place.atoms for place in strong]


def _nearest(atom: int, places: list[_Place], cosines: FloatArray) -> _Place:
    anchors = [place.anchor for place in places]
    if atom in anchors:
        return places[anchors.index(atom)]
    return places[int(cosines[np.ix_([atom], anchors)].argmax())]
