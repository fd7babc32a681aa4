"""Every bad input has a message that names the argument, what it got and what to do."""

import warnings

import numpy as np
import pytest
import scipy.sparse

from maxsparse._core.validation import (
    DuplicateAtomsWarning,
    check_choice,
    check_dictionary,
    check_integer,
    check_matrix,
    check_number,
    check_pair,
    check_problem,
    check_rng,
    duplicate_atoms,
)


@pytest.fixture
def Phi():
    return np.random.default_rng(0).standard_normal((4, 9))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([1.0, 2.0], r"A must be 2-D, got shape \(2,\); for a single row pass A\[None, :\]"),
        (np.zeros((2, 2, 2)), r"A must be 2-D, got shape \(2, 2, 2\)$"),
        ([[1.0, np.nan]], "A holds NaN at row 0, column 1; remove or fill"),
        ([[1.0], [-np.inf]], "A holds -inf at row 1, column 0"),
        ([["a", "b"]], "A must hold numbers, got dtype <U1"),
        ([[1.0 + 2.0j]], "A is complex; stack real and imaginary parts"),
        ([[1.0, 2.0], [3.0]], "A cannot be read as an array"),
        ([[None, 1.0]], "A must hold numbers, got dtype object"),
    ],
)
def test_bad_matrices(array, message):
    with pytest.raises(ValueError, match=message):
        check_matrix(array, "A")


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.longdouble])
def test_other_dtypes_become_float64(dtype):
    assert check_matrix(np.ones((2, 2), dtype=dtype), "A").dtype == np.float64


def test_float32_is_kept_and_nothing_is_copied(Phi):
    single = Phi.astype(np.float32)
    assert check_matrix(single, "A") is single
    readonly = Phi[:, ::2]
    readonly.flags.writeable = False
    assert np.shares_memory(check_matrix(readonly, "A"), Phi)


def test_scipy_sparse_is_accepted(Phi):
    np.testing.assert_array_equal(check_matrix(scipy.sparse.csr_array(Phi), "A"), Phi)


def test_empty_dictionary():
    with pytest.raises(ValueError, match=r"Phi is empty: shape \(0, 3\)"):
        check_dictionary(np.zeros((0, 3)))


def test_zero_atoms_are_named(Phi):
    Phi[:, [2, 5]] = 0
    with pytest.raises(ValueError, match=r"Phi has zero atoms \(columns 2, 5\); remove them"):
        check_dictionary(Phi)


def test_many_zero_atoms_are_cut_short():
    Phi = np.zeros((3, 50))
    with pytest.raises(ValueError, match=r"columns 0, 1, 2, 3, 4, …"):
        check_dictionary(Phi)


def test_duplicate_atoms_are_named(Phi):
    Phi[:, 7] = -3.0 * Phi[:, 1]
    with pytest.warns(DuplicateAtomsWarning, match=r"1 duplicate atoms \(columns 1 and 7\)"):
        check_dictionary(Phi)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_duplicates_against_all_pairs(scale):
    rng = np.random.default_rng(3)
    Phi = rng.standard_normal((5, 40))
    Phi[:, [11, 30]] = Phi[:, [4]] * [-2.0, 0.5]
    Phi[:, 20] = Phi[:, 21] * (1 + 1e-7 * rng.standard_normal(5))  # near, but not the same
    Phi *= scale
    unit = Phi / np.abs(Phi).max(axis=0)
    unit /= np.linalg.norm(unit, axis=0)
    brute = [
        (i, j)
        for i in range(40)
        for j in range(i + 1, 40)
        if min(np.linalg.norm(unit[:, i] - s * unit[:, j]) for s in (-1, 1)) < 1e-12
    ]
    assert brute == [(4, 11), (4, 30), (11, 30)]
    assert duplicate_atoms(Phi) == brute


def test_clean_dictionary_is_silent(Phi):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_dictionary(Phi) is Phi


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 6), r"Y has shape \(4, 6\) but Phi has shape \(4, 9\): signals are rows.*pass Y.T"),
        ((6, 9), r"Phi is \(measurements, atoms\), so Phi fits transposed; pass Phi.T"),
        ((6, 5), r"Y must have n = 4 columns, one row per signal"),
    ],
)
def test_transposed_hints(Phi, shape, message):
    with pytest.raises(ValueError, match=message):
        check_problem(Phi, np.ones(shape))


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_fitting_signals_pass(Phi, rows):
    assert check_problem(Phi, np.ones((rows, 4)))[1].shape == (rows, 4)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [("f4", "f4", "f4"), ("f4", "f8", "f8"), ("f8", "f4", "f8"), ("f4", "i4", "f8")],
)
def test_one_dtype(Phi, left, right, common):
    A, B = check_problem(Phi.astype(left), np.ones((2, 4), dtype=right))
    assert A.dtype == B.dtype == np.dtype(common)


def test_pairs():
    with pytest.raises(
        ValueError, match=r"X and scores must have the same shape, got \(2, 3\) and \(3, 2\); scores fits"
    ):
        check_pair(np.ones((2, 3)), np.ones((3, 2)), ("X", "scores"))


@pytest.mark.parametrize("bad", [1.5, "3", None, True, np.nan])
def test_integers(bad):
    with pytest.raises(ValueError, match="k must be a whole number, got"):
        check_integer(bad, "k")


def test_integer_bounds():
    assert check_integer(np.int32(3), "k", low=1, high=3) == 3
    with pytest.raises(ValueError, match="k must be from 1 to 3, got 4"):
        check_integer(4, "k", low=1, high=3)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        check_integer(0, "k", low=1)


@pytest.mark.parametrize("bad", ["1", None, True, np.inf, np.nan])
def test_numbers(bad):
    with pytest.raises(ValueError, match="tol must be a finite number, got"):
        check_number(bad, "tol")


def test_number_bounds():
    with pytest.raises(ValueError, match=r"tol must be at least 0\.0, got -1"):
        check_number(-1, "tol", low=0.0)
    with pytest.raises(ValueError, match=r"tol must be from 0\.0 to 1\.0, got 2"):
        check_number(2, "tol", low=0.0, high=1.0)


def test_choices():
    with pytest.raises(ValueError, match="method must be one of 'a', 'b', got 'c'"):
        check_choice("c", "method", ("a", "b"))


def test_rng():
    generator = np.random.default_rng(5)
    assert check_rng(generator) is generator
    assert check_rng(7).random() == np.random.default_rng(7).random()
    assert check_rng(None).random() != check_rng(None).random()
    for bad in ("seed", 1.5, -1):
        with pytest.raises(ValueError, match="rng must be"):
            check_rng(bad)
