"""What arrays cannot tell: lookalikes, sources outside the field of view, too many sources; and tones in recordings."""

import warnings

import numpy as np
import pytest
from scipy.io import wavfile

from maxsparse.fields import arrays

ROW = arrays.linear(12)
THREE = arrays.simulate(ROW, [-20.0, 10.0, 15.0], snapshots=20, rng=0)


def test_a_known_noise_level():
    array = arrays.linear(8)
    found = arrays.estimate_directions(arrays.simulate(array, [-10.0, 20.0], rng=0), array, noise=0.1)
    np.testing.assert_allclose(np.sort(found.azimuth), [-10.0, 20.0], atol=0.3)
    assert found.noise == pytest.approx(0.1)


def test_a_grating_lobe_is_reported_where_the_sine_says():
    array = arrays.linear(8, spacing=1.0)
    with pytest.warns(UserWarning, match="sensors are 1 wavelengths apart, half a wavelength is 0.5 wavelengths"):
        found = arrays.estimate_directions(arrays.simulate(array, [-41.1], rng=0), array)
    other = np.degrees(np.arcsin(np.sin(np.radians(-41.1)) + 1))  # one wavelength more between neighbours
    both = sorted([found.azimuth[0], found.ambiguous[0][0][0]])
    np.testing.assert_allclose(both, [-41.1, other], atol=0.2)
    assert found.probability[0] == pytest.approx(0.5, abs=0.02)
    assert "or " in repr(found)
    assert "looks the same" in {text.get_text() for text in found.plot().get_legend().get_texts()}


@pytest.mark.parametrize(
    ("array", "truth", "mirror", "options"),
    [
        (arrays.Array(np.column_stack([np.zeros(8), 0.5 * np.arange(8)])), (-50.0, 0.0), (50.0, 0.0), {}),
        (arrays.circular(8), (40.0, 20.0), (40.0, -20.0), {"elevation": (-90, 90)}),
    ],
)
def test_mirror_images_are_reported(array, truth, mirror, options):
    found = arrays.estimate_directions(arrays.simulate(array, [truth[0]], [truth[1]], rng=0), array, **options)
    places = [(found.azimuth[0], found.elevation[0]), *found.ambiguous[0]]
    if np.hypot(*(np.array(places[0]) - truth)) > 1.0:  # which of the two comes first is up to rounding errors
        places.reverse()
    np.testing.assert_allclose(places, [truth, mirror], atol=1.0)


def test_a_field_of_view_chooses_between_lookalikes():
    array = arrays.linear(8, spacing=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = arrays.estimate_directions(arrays.simulate(array, [5.0], rng=0), array, azimuth=(-15, 15))
    assert found.azimuth == pytest.approx([5.0], abs=0.2)
    assert found.ambiguous == [[]]


def test_sources_outside_the_field_of_view_are_counted_and_disturb_none():
    whole = arrays.estimate_directions(THREE, ROW)
    for options in ({}, {"sources": 2}):
        found = arrays.estimate_directions(THREE, ROW, azimuth=(-15, 60), **options)
        assert found.outside == 1
        np.testing.assert_allclose(found.azimuth, whole.azimuth[whole.azimuth > -15], atol=1e-6)


def test_a_given_number_has_the_probability_that_snapshots_give_it():
    with pytest.warns(UserWarning, match="contradict sources=2, .*: 3 is the most probable number"):
        found = arrays.estimate_directions(THREE, ROW, sources=2)
    assert len(found) == 2
    assert found.confidence < 0.01


@pytest.mark.parametrize("noise", [None, 0.1])
def test_more_sources_than_sensors_are_not_explained_away(noise):
    positions = [0.0, 0.5, 1.0, 1.5] if noise else [[0.0, 0.0], [0.5, 0.0], [0.1, 0.6], [0.8, 0.3]]
    array = arrays.Array(positions)
    Y = arrays.simulate(array, [-60.0, -30.0, 0.0, 25.0, 50.0], snapshots=200, snr_db=20, rng=0)
    with pytest.warns(UserWarning, match="saturated: no number of sources below the 4"):
        found = arrays.estimate_directions(Y, array, noise=noise)
    assert found.confidence < 0.01


def test_as_many_as_can_be_told_apart_may_be_more():
    array = arrays.linear(4)
    Y = arrays.simulate(array, [-60.0, -30.0, 0.0, 25.0], snapshots=200, snr_db=20, rng=0)
    with pytest.warns(UserWarning, match="4 sensors can tell at most 3 sources apart"):
        assert arrays.estimate_directions(Y, array).confidence <= 0.5


@pytest.mark.parametrize("snr_db", [100, 120, 200, 280])
def test_rounding_errors_are_no_source(snr_db):
    for seed in range(4):
        Y = arrays.simulate(ROW, [-20.0, 10.0, 15.0], snapshots=20, snr_db=snr_db, rng=seed)
        assert len(arrays.estimate_directions(Y, ROW)) == 3


@pytest.mark.parametrize("tone", [1000.0, 1010.0])
def test_a_tone_is_one_source_with_its_own_frequency(tmp_path, tone):
    array, rate = arrays.linear(12, 0.05, speed=343.0), 16_000
    early = array.positions[:, 0] * np.sin(np.radians(40.0)) / 343.0
    sound = np.sin(2 * np.pi * tone * (np.arange(rate)[:, None] / rate + early))
    sound += 0.01 * np.random.default_rng(0).standard_normal(sound.shape)
    wavfile.write(tmp_path / "tone.wav", rate, np.int16(20_000 * sound))
    heard = arrays.read_snapshots(tmp_path / "tone.wav", band=(500, 3000))
    assert heard.frequencies is not None
    assert np.abs(heard.frequencies - tone).min() < 0.1
    found = arrays.estimate_directions(heard.snapshots, array, frequencies=heard.frequencies, window=heard.window)
    assert found.azimuth == pytest.approx([40.0], abs=0.1)
    with pytest.warns(UserWarning, match="ends at 8000 Hz: the band 500 to 90000 Hz is cut"):
        arrays.read_snapshots(tmp_path / "tone.wav", band=(500, 90_000))
    with pytest.raises(ValueError, match="the recording lasts 1e\\+03 ms, but pieces of 2e\\+03 ms are needed"):
        arrays.read_snapshots(tmp_path / "tone.wav", window=2.0)


def test_positions_with_a_line_of_names(tmp_path):
    (tmp_path / "sensors.csv").write_text("x,y,z\n0,0,0\n0.5,0,0\n0.1,0.7,0\n")
    np.testing.assert_array_equal(arrays.read_array(tmp_path / "sensors.csv").positions[2], [0.1, 0.7, 0.0])
