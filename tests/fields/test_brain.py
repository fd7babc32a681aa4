"""Brains: MNE-Python's objects in and out, next to MNE-Python's own functions."""

import sys

import numpy as np
import pytest

mne = pytest.importorskip("mne", reason="MNE-Python is not installed: pip install 'maxsparse[brain]'")

from maxsparse.fields import brain  # noqa: E402
from maxsparse.fields.brain.prepare import prepared  # noqa: E402

PLACES = [50, 210]


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with mne.utils.use_log_level("ERROR"):
        yield


@pytest.fixture(scope="module")
def head():
    return brain.sphere_head(300)


@pytest.fixture(scope="module")
def evoked(head):
    return brain.simulate(*head, PLACES, snr_db=20, rng=0)


def volume_head(head):
    """Return a head with places in a volume: sides of 25 mm."""
    _, noise_cov, info = head
    sphere = mne.make_sphere_model("auto", "auto", info)
    space = mne.setup_volume_source_space(sphere=sphere, pos=25.0, mindist=10.0)
    return mne.make_forward_solution(info, None, space, sphere, meg=False), noise_cov, info


@pytest.mark.parametrize(
    ("loose", "depth", "pca"),
    [(0, 0.8, True), (0.2, 0.8, True), (1, None, True), ("auto", {"exp": 0.5, "limit": 5.0}, True), (0.3, 0.8, False)],
)
def test_weighting_and_whitening_are_those_of_mne(head, evoked, loose, depth, pca):
    mxne_inverse = pytest.importorskip("mne.inverse_sparse.mxne_inverse")
    forward, noise_cov, _ = head
    marked = evoked.copy()
    marked.info["bads"] = [marked.ch_names[3]]
    own = prepared(mne, marked, forward, noise_cov, loose=loose, depth=depth, pca=pca, rank=None)
    _, gain, info, whitener, weighting, _ = mxne_inverse._prepare_gain(
        forward, marked.info, noise_cov, pca, depth, loose, None
    )
    assert own.head.gain.G.shape[0] == len(info["ch_names"]) - (1 if pca else 0)
    heard = gain.any(axis=1)
    factor = np.linalg.norm(gain) / np.linalg.norm(own.head.gain.G)  # counts rows of zeros
    np.testing.assert_allclose(own.head.gain.G[heard] * factor, gain[heard], atol=1e-10)
    np.testing.assert_allclose(own.head.weighting * factor, weighting, rtol=1e-10)
    picks = [marked.ch_names.index(name) for name in info["ch_names"]]
    np.testing.assert_allclose(own.M, whitener @ marked.data[picks], atol=1e-10)


@pytest.mark.parametrize("loose", ["auto", 1.0])
def test_places_amplitudes_and_probabilities(head, evoked, loose):
    forward, noise_cov, info = head
    found = brain.sparse_inverse(evoked, forward, noise_cov, loose=loose, pick_ori="vector", return_as="all")
    np.testing.assert_array_equal(found.places, PLACES)
    assert len(found) == 2
    assert isinstance(found.stc, mne.VectorSourceEstimate)
    # What the sources send to the sensors is what was measured, up to the noise of 1 µV.
    sent = mne.apply_forward(forward, found.stc, info, use_cps=True).data
    left = sent - sent.mean(axis=0) - (evoked.data - evoked.data.mean(axis=0))
    assert np.sqrt(np.mean(left**2)) == pytest.approx(1e-6, rel=0.1)
    assert found.noise == pytest.approx(1.0, rel=0.05)
    assert found.confidence > 0.9
    assert isinstance(found.probability, mne.SourceEstimate)
    assert found.probability.data.shape[1] == 1
    vertices = np.concatenate([found.probability.vertices[0], found.probability.vertices[1] + 10_000])
    own = np.concatenate([found.stc.vertices[0], found.stc.vertices[1] + 10_000])
    assert found.probability.data[np.isin(vertices, own)].min() > 0.9
    assert "2 active places, confidence" in repr(found)
    assert found._repr_html_().count("<tr>") == 3


def test_fixed_orientations(head):
    forward, noise_cov, info = brain.sphere_head(300, fixed=True)
    evoked = brain.simulate(forward, noise_cov, info, PLACES, snr_db=20, rng=1)
    stc = brain.sparse_inverse(evoked, forward, noise_cov)
    assert type(stc) is mne.SourceEstimate
    n_left = len(forward["src"][0]["vertno"])
    assert [v.tolist() for v in stc.vertices] == [[50], [210 - n_left]]
    sent = mne.apply_forward(forward, stc, info).data
    left = sent - sent.mean(axis=0) - (evoked.data - evoked.data.mean(axis=0))
    assert np.sqrt(np.mean(left**2)) == pytest.approx(1e-6, rel=0.1)
    same = brain.sparse_inverse(evoked, head[0], noise_cov, loose=0)  # a free forward solution, made fixed
    np.testing.assert_allclose(same.data, stc.data, rtol=1e-6)
    with pytest.raises(ValueError, match="the forward solution has fixed orientations: use loose=0"):
        brain.sparse_inverse(evoked, forward, noise_cov, loose=0.2)
    with pytest.raises(ValueError, match="needs free or loose orientations"):
        brain.sparse_inverse(evoked, forward, noise_cov, pick_ori="vector")


def test_positions_between_the_places(head):
    """Sources of a finer grid: closer to them than the nearest places are, and at the places where they are there."""
    fine = brain.sphere_head(1500)
    rng = np.random.default_rng(0)
    grid, sources = head[0]["source_rr"], fine[0]["source_rr"]
    errors, nearest = [], []
    for _ in range(6):
        place = int(rng.integers(len(sources)))
        found = brain.sparse_inverse(brain.simulate(*fine, [place], snr_db=25, rng=rng), *head[:2], return_as="all")
        errors.append(np.linalg.norm(found.positions - sources[place], axis=1).min())
        nearest.append(np.linalg.norm(grid - sources[place], axis=1).min())
        np.testing.assert_allclose([dipole.pos[0] for dipole in found.dipoles], found.positions)
    assert np.mean(errors) < 0.6 * np.mean(nearest)
    evoked = brain.simulate(*head, [77, 180], snr_db=10, rng=1)
    found = brain.sparse_inverse(evoked, *head[:2], return_as="all")
    np.testing.assert_array_equal(found.positions, grid[[77, 180]])


def test_a_head_is_known_again_unless_something_changed(head, evoked):
    forward, noise_cov, _ = head
    options = {"loose": 1, "depth": 0.8, "pca": True, "rank": None}
    first = prepared(mne, evoked, forward, noise_cov, **options)
    assert prepared(mne, evoked.copy().crop(0, 0.1), forward.copy(), noise_cov.copy(), **options).head is first.head
    marked, louder, other = evoked.copy(), noise_cov.copy(), forward.copy()
    marked.info["bads"] = [marked.ch_names[5]]
    louder["data"] = louder["data"] * 4.0
    other["sol"]["data"] = other["sol"]["data"].copy()
    other["sol"]["data"][3, 4] *= 1.5
    changed = [
        (marked, forward, noise_cov, options),
        (evoked, forward, louder, options),
        (evoked, other, noise_cov, options),
        (evoked, forward, noise_cov, options | {"depth": 0.5}),
    ]
    for *objects, own in changed:
        again = prepared(mne, *objects, **own).head
        assert not np.allclose(again.weighting, first.head.weighting, rtol=1e-6, atol=0.0)


def test_dipoles(head, evoked):
    dipoles = brain.sparse_inverse(evoked, *head[:2], return_as="dipoles")
    assert all(isinstance(dipole, mne.Dipole) for dipole in dipoles)
    np.testing.assert_allclose([dipole.pos[0] for dipole in dipoles], head[0]["source_rr"][PLACES], atol=1e-9)
    vectors = brain.sparse_inverse(evoked, *head[:2], pick_ori="vector").data
    for dipole, vector in zip(dipoles, vectors, strict=True):
        np.testing.assert_allclose(dipole.amplitude * dipole.ori.T, vector, atol=1e-15)
        assert dipole.gof.max() > 90


def test_a_volume(head):
    forward, noise_cov, info = volume_head(head)
    evoked = brain.simulate(forward, noise_cov, info, [5, 60], rng=2)
    found = brain.sparse_inverse(evoked, forward, noise_cov, return_as="all")
    assert type(found.stc) is type(found.probability) is mne.VolSourceEstimate
    np.testing.assert_array_equal(found.places, [5, 60])
    np.testing.assert_array_equal(found.stc.vertices[0], forward["src"][0]["vertno"][[5, 60]])
    forward["src"][0]["type"] = "vol"
    with pytest.raises(ValueError, match="orientations in a volume are free"):
        brain.sparse_inverse(evoked, forward, noise_cov, loose=0.2)


def test_it_runs_inside_the_example_of_a_custom_solver(head, evoked):
    """``apply_solver`` of mne-python's examples/inverse/custom_inverse_solver.py."""
    module = pytest.importorskip("mne.inverse_sparse.mxne_inverse")
    forward, noise_cov, _ = head
    forward, gain, gain_info, whitener, weighting, _ = module._prepare_gain(
        forward, evoked.info, noise_cov, pca=False, depth=0.8, loose=0.2, rank=None
    )
    picks = [evoked.ch_names.index(name) for name in gain_info["ch_names"]]
    n_orient = 1 if module.is_fixed_orient(forward) else 3
    X, active_set = brain.solver(whitener @ evoked.data[picks], gain, n_orient)
    X = module._reapply_source_weighting(X, weighting, active_set)
    stc = module._make_sparse_stc(X, active_set, forward, tmin=evoked.times[0], tstep=1 / evoked.info["sfreq"])
    own = brain.sparse_inverse(evoked, *head[:2], loose=0.2)
    np.testing.assert_array_equal(np.concatenate(stc.vertices), np.concatenate(own.vertices))
    np.testing.assert_allclose(stc.data, own.data, rtol=1e-6)


def test_noise_has_no_source_and_its_level_is_learned(head):
    forward, noise_cov, info = head
    quiet = brain.simulate(forward, noise_cov, info, [], rng=0)
    quiet.data /= np.sqrt(50)  # an average of 50 trials, with the covariance of single ones
    found = brain.sparse_inverse(quiet, forward, noise_cov, return_as="all")
    assert found.stc.data.shape == (0, 100)
    assert found.dipoles == []
    assert found.noise == pytest.approx(1 / np.sqrt(50), rel=0.05)
    assert "0 active places" in repr(found)


def test_the_picture(head, evoked):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    found = brain.sparse_inverse(evoked, *head[:2], return_as="all")
    axes = found.plot(truth=head[0]["source_rr"][PLACES])
    assert [len(one.lines) for one in axes] == [0, 0, 0, 2]
    assert "2 active places" in axes[3].get_title()
    assert all("mm, probability" in text.get_text() for text in axes[3].get_legend().get_texts())
    np.testing.assert_allclose(*(np.ptp(one.get_ylim()) for one in axes[[0, 2]]))
    with pytest.raises(ValueError, match="axes must be four"):
        found.plot(axes=axes[:2])
    plt.close("all")


def test_bad_input_in_the_words_of_the_field(head, evoked):
    forward, noise_cov, _ = head
    epochs = mne.EpochsArray(evoked.data[None], evoked.info)
    with pytest.raises(ValueError, match=r"evoked must be an mne\.Evoked, got EpochsArray; average the epochs first"):
        brain.sparse_inverse(epochs, forward, noise_cov)
    with pytest.raises(ValueError, match=r"noise_cov must be an mne\.Covariance, got NoneType"):
        brain.sparse_inverse(evoked, forward, None)
    other = mne.EvokedArray(evoked.data, mne.create_info([f"{name}x" for name in evoked.ch_names], 200.0, "eeg"))
    other.set_eeg_reference(projection=True)
    with pytest.raises(ValueError, match="no good channel in common"):
        brain.sparse_inverse(other, forward, noise_cov)
    broken = evoked.copy()
    broken.data[3, 5] = np.nan
    with pytest.raises(ValueError, match="not finite; mark these channels as bad"):
        brain.sparse_inverse(broken, forward, noise_cov)
    broken.info["bads"] = [broken.ch_names[3]]
    assert brain.sparse_inverse(broken, forward, noise_cov).data.shape == (2, 100)
    no_reference = mne.EvokedArray(evoked.data, mne.create_info(evoked.ch_names, 200.0, "eeg"))
    with pytest.raises(ValueError, match=r"EEG needs an average reference: evoked\.set_eeg_reference"):
        brain.sparse_inverse(no_reference, forward, noise_cov)
    for option, message in (
        ({"loose": 2.0}, "loose must be from 0"),
        ({"loose": "free"}, "loose must be 'auto'"),
        ({"loose": {"volume": 1.0}}, r"one number for each of \['surface'\]"),
        ({"depth": -1.0}, "depth must be at least 0"),
        ({"return_as": "table"}, "return_as must be one of stc, dipoles, all"),
        ({"pick_ori": "normal"}, "pick_ori must be None or 'vector'"),
        ({"noise": "low"}, "noise must be 'auto' or a standard deviation"),
    ):
        with pytest.raises(ValueError, match=message):
            brain.sparse_inverse(evoked, forward, noise_cov, **option)


def test_channels_that_are_missing_and_units_that_do_not_fit(head, evoked):
    forward, noise_cov, _ = head
    few = evoked.copy()
    few.info["bads"] = few.ch_names[4:]
    with pytest.raises(ValueError, match="too few channels: 4 good ones"):
        brain.sparse_inverse(few, forward, noise_cov)
    some, fewer = (mne.pick_channels_forward(forward, evoked.ch_names[:n]) for n in (40, 12))
    with pytest.warns(UserWarning, match=r"of the 64 good channels of evoked \(eeg\), 40 are in forward and 64 in"):
        assert brain.sparse_inverse(evoked, some, noise_cov).data.shape[1] == 100
    with pytest.raises(ValueError, match=r"12 are in forward .* made for the same recording"):
        brain.sparse_inverse(evoked, fewer, noise_cov)
    microvolts = evoked.copy()
    microvolts.data *= 1e6
    with pytest.warns(UserWarning, match=r"noise of evoked is 1e\+06 times that of noise_cov: check the units"):
        brain.sparse_inverse(microvolts, forward, noise_cov)


def test_without_mne_the_error_says_what_to_install(head, evoked, monkeypatch):
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(ImportError, match=r"source localisation needs MNE-Python: pip install 'maxsparse\[brain\]'"):
        brain.sparse_inverse(evoked, *head[:2])
