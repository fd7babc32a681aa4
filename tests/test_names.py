"""Names of atoms and measurements: from tables or given, into results, files and scikit-learn."""

import numpy as np
import pytest

import maxsparse as ms
from maxsparse.recovery import load

pandas = pytest.importorskip("pandas")
ATOMS, BANDS = [f"atom {j}" for j in range(12)], [f"band {i}" for i in range(8)]


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.gaussian(8, 12, rng=0)


@pytest.fixture(scope="module")
def signals(Phi):
    return ms.signals.sample(Phi, 5, sparsity=2, rng=1)


@pytest.fixture
def table(Phi):
    return pandas.DataFrame(Phi, index=BANDS, columns=ATOMS)


def solved(Phi, Y, **options):
    return ms.solve(Phi, Y, method="exact", sparsity=2, **options)


def recovered(Phi, Y, **options):
    return ms.SparseRecoverer(Phi, **options).recover(Y)


@pytest.mark.parametrize("run", [solved, recovered])
def test_names_reach_the_result(run, Phi, table, signals):
    X, Y = signals
    for result in (run(table, Y), run(Phi, Y, names=ATOMS), run(table, Y)[1:]):
        assert result.names == tuple(ATOMS)
        truth = X[len(X) - len(result)]
        assert {row["name"] for row in result.table()} == {f"atom {j}" for j in np.flatnonzero(truth)}
        for row in result.table():
            assert row["coef"] == pytest.approx(truth[row["atom"]])
    assert run(Phi, Y).names is None
    assert run(pandas.DataFrame(Phi), Y).names is None  # columns that only count are no names


@pytest.mark.parametrize("run", [solved, recovered])
def test_reordered_columns_of_Y_are_put_in_order(run, table, signals):
    Y = signals[1]
    shuffled = np.random.default_rng(0).permutation(8)
    frame = pandas.DataFrame(Y, columns=BANDS).iloc[:, shuffled]
    np.testing.assert_array_equal(run(table, frame).coef, run(table, Y).coef)


@pytest.mark.parametrize("run", [solved, recovered])
def test_other_columns_of_Y_are_refused(run, table, signals):
    frame = pandas.DataFrame(signals[1], columns=[*BANDS[:-1], "moisture"])
    with pytest.raises(ValueError, match=r"Y lacks 'band 7' and has 'moisture'; rename them"):
        run(table, frame)
    with pytest.raises(ValueError, match="some names repeat"):
        run(table, pandas.DataFrame(signals[1], columns=[*BANDS[:-1], "band 0"]))


def test_wrong_names(Phi, signals):
    with pytest.raises(ValueError, match="names must be 12 names, one per atom of Phi, got 2"):
        solved(Phi, signals[1], names=["a", "b"])
    with pytest.raises(ValueError, match="a list of names, one per atom, got the text 'abc'"):
        recovered(Phi, signals[1], names="abc")


def test_scikit_learn_gets_the_names(table, signals):
    frame = pandas.DataFrame(signals[1], columns=BANDS)
    model = ms.SparseRecoverer(table).fit(frame).set_output(transform="pandas")
    assert list(model.transform(frame).columns) == ATOMS
    assert list(model.transform(frame[BANDS[::-1]]).columns) == ATOMS
    assert model.get_feature_names_out().tolist() == ATOMS


def test_a_file_keeps_the_names(table, signals, tmp_path):
    ms.SparseRecoverer(table).save(tmp_path / "model.safetensors")
    model = load(tmp_path / "model.safetensors")
    frame = pandas.DataFrame(signals[1], columns=BANDS)
    found = model.recover(frame[BANDS[::-1]])
    assert found.names == tuple(ATOMS)
    np.testing.assert_allclose(found.coef, recovered(table, signals[1]).coef, atol=1e-12)


def test_npz_and_notebook(table, signals, tmp_path):
    result = recovered(table.rename(columns={"atom 3": "<atom 3>"}), table["atom 3"].to_numpy()[None])
    result.to_npz(tmp_path / "result.npz")
    with np.load(tmp_path / "result.npz", allow_pickle=False) as stored:
        assert stored["names"].tolist() == list(result.names)
    html = result._repr_html_()
    assert "&lt;atom 3&gt;: 1" in html
    assert "<td>certified</td>" in html
    assert "confidence" not in solved(table, signals[1])._repr_html_()


def test_credible_sets_have_names(Phi):
    near = np.column_stack([Phi, Phi[:, 0] + 1e-3 * Phi[:, 1]])
    noise = 0.05 * np.random.default_rng(0).standard_normal(8)
    result = recovered(near, Phi.T[:1] + noise, noise=0.05, names=[*ATOMS, "twin"])
    (found,) = result.credible_sets(0)
    assert set(found.names) == {"atom 0", "twin"}
    assert "twin: 0." in repr(found)
