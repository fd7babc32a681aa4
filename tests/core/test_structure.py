"""The description of snapshots, complex numbers, groups and signs, and the checks of such problems."""

from itertools import pairwise

import numpy as np
import pytest

from maxsparse._core.prepared import Prepared, cosines, whiten
from maxsparse._core.structure import check_groups, check_structured
from maxsparse._core.validation import DuplicateAtomsWarning, check_dictionary, duplicate_atoms


def draw(*shape, complex_=False, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if complex_ else 0)


@pytest.fixture
def Phi():
    return draw(4, 6)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, []),
        ({"groups": [3, 1, 4, 0, 5, 9]}, []),  # every atom on its own
        ({"positive": True}, ["positive"]),
        ({"groups": ["a", "b", "a", "c", "d", "e"]}, ["groups"]),
    ],
)
@pytest.mark.parametrize(("shape", "several"), [((5, 4), []), ((5, 1, 4), []), ((5, 2, 4), ["snapshots"])])
def test_what_is_asked(Phi, options, asked, shape, several):
    structure = check_structured(Phi, draw(*shape), **options)[2]
    assert structure.asked == asked + several
    assert structure.plain == (not structure.asked)
    assert check_structured(Phi + 0j, draw(*shape))[2].asked == ["complex", *several]
    assert check_structured(Phi, draw(*shape) + 0j)[2].complex


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [("f4", "f4", "f4"), ("c8", "f4", "c8"), ("f4", "c8", "c8"), ("c8", "f8", "c16"), ("c8", "i4", "c16")],
)
def test_one_dtype(Phi, left, right, common):
    A, Y, _ = check_structured(Phi.astype(left), np.ones((2, 3, 4), dtype=right))
    assert A.dtype == Y.dtype == np.dtype(common)
    assert Y.flags.c_contiguous
    assert Y.flags.writeable


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.ones((3, 0, 4)), r"Y has no snapshots: shape \(3, 0, 4\)"),
        (np.ones((3, 4, 2)), r"Y fits transposed; pass Y.transpose\(0, 2, 1\)"),
        (np.ones((3, 2, 5)), r"the last axis of Y must have n = 4 measurements, as in \(N, L, n\)"),
        (np.ones(4), r"Y must be 2-D or 3-D, got shape \(4,\); for a single row pass Y\[None, :\]"),
        (np.ones((1, 1, 1, 4)), r"Y must be 2-D or 3-D, got shape \(1, 1, 1, 4\)$"),
        (np.full((2, 3, 4), np.nan), "Y holds NaN at row 0, snapshot 0, column 0"),
        (np.array([[1, 2, 3, complex(0, np.inf)]]), "Y holds .*inf.* at row 0, column 3"),
        (np.full((2, 3, 4), 1e70j), "Y has a largest entry of 1e.70 in snapshot 0"),
    ],
)
def test_bad_signals(Phi, Y, message):
    with pytest.raises(ValueError, match=message):
        check_structured(Phi, Y)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], r"groups must be 6 labels, one per atom of Phi, got shape \(2,\)"),
        ([[0, 0], [1, 1], [2, 2]], r"got shape \(3, 2\)"),
        ([0.5] * 6, "groups must be whole numbers or words, got dtype float64"),
    ],
)
def test_bad_groups(Phi, groups, message):
    with pytest.raises(ValueError, match=message):
        check_structured(Phi, np.ones((2, 4)), groups=groups)


def test_positive_needs_real_data(Phi):
    with pytest.raises(ValueError, match=r"positive=True is for real data, but Y is complex; .* Y\.real"):
        check_structured(Phi, np.ones((2, 4)) + 0j, positive=True)
    with pytest.raises(ValueError, match="positive must be True or False, got 'yes'"):
        check_structured(Phi, np.ones((2, 4)), positive="yes")


def test_blocks_stand_side_by_side(Phi):
    structure = check_structured(Phi, np.ones((2, 4)), groups=[7, 2, 7, 5, 2, 7])[2]
    assert structure.labels.tolist() == [2, 0, 2, 1, 0, 2]
    assert structure.start.tolist() == [0, 2, 3, 6]
    assert (structure.n_blocks, structure.largest) == (3, 3)
    arranged = structure.arranged(Phi)
    np.testing.assert_array_equal(arranged, Phi[:, [1, 4, 3, 0, 2, 5]])
    X = draw(2, 3, 6)
    np.testing.assert_allclose(structure.restored(X) @ Phi.T, X @ arranged.T)


def test_sorted_labels_move_nothing(Phi):
    structure = check_structured(Phi, np.ones((2, 4)), groups=[0, 0, 1, 1, 2, 2])[2]
    assert structure.arranged(Phi) is Phi
    assert check_groups(None, 3) is None


@pytest.mark.parametrize("complex_", [False, True])
def test_compression_loses_nothing(Phi, complex_):
    Y = draw(3, 9, 4, complex_=complex_)
    structure = check_structured(Phi, Y)[2]
    rows, Q = structure.compressed(Y)
    assert rows.shape == (3, 4, 4)
    np.testing.assert_allclose(Q @ rows, Y)
    X = draw(3, 4, 6, complex_=complex_, seed=1)  # any coefficients
    np.testing.assert_allclose(
        np.linalg.norm(rows - X @ Phi.T, axis=(1, 2)), np.linalg.norm(Y - Q @ X @ Phi.T, axis=(1, 2))
    )
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), np.linalg.norm(Q @ X, axis=1))


def test_few_or_positive_snapshots_are_not_compressed(Phi):
    for Y, positive in ((draw(3, 4, 4), False), (draw(3, 9, 4), True)):
        structure = check_structured(Phi, Y, positive=positive)[2]
        assert structure.compressed(Y)[0] is Y
        assert structure.compressed(Y)[1] is None


def test_complex_duplicates_differ_by_a_phase():
    Phi = draw(5, 8, complex_=True)
    Phi[:, 6] = Phi[:, 2] * (0.3 - 2j)
    assert duplicate_atoms(Phi) == [(2, 6)]
    with pytest.warns(DuplicateAtomsWarning, match="columns 2 and 6"):
        check_dictionary(Phi, complex_too=True)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_whitening_of_complex_dictionaries(noise):
    Phi = draw(5, 12, complex_=True)
    W, D = whiten(Phi, noise)
    lam = noise**2 * np.linalg.norm(Phi) ** 2 / 5
    np.testing.assert_allclose(
        W.conj().T @ W, np.linalg.inv(Phi @ Phi.conj().T + lam * np.eye(5)), rtol=1e-9, atol=1e-12
    )
    assert D.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(W @ Phi * D, axis=0), 1.0)
    gram = Prepared(Phi).form().gram
    np.testing.assert_allclose(gram, gram.conj().T, atol=1e-12)
    assert cosines(Phi).dtype == np.float64


def test_whitening_keeps_the_shapes_of_groups(Phi):
    start = np.array([0, 2, 3, 6])
    W, D = whiten(Phi, 0.0, start)
    assert [len(set(D[a:b])) for a, b in pairwise(start)] == [1, 1, 1]
    sizes = np.add.reduceat(np.linalg.norm(W @ Phi * D, axis=0) ** 2, start[:-1])
    np.testing.assert_allclose(sizes, np.diff(start))
