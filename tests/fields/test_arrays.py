"""Arrays: directions against closed forms, finite differences, and the bound."""

import numpy as np
import pytest

from maxsparse.fields import arrays
from maxsparse.fields.arrays import likelihood
from maxsparse.fields.arrays.inputs import data_of


@pytest.mark.parametrize("frequency", [None, 2000.0])
def test_slopes_of_steering_vectors(frequency):
    speed = None if frequency is None else 343.0
    array = arrays.Array(np.random.default_rng(0).standard_normal((5, 3)) / 4, speed=speed)
    A, slopes = array.steering_with_slopes([20.0, -70.0], [10.0, 40.0], frequency=frequency)
    assert np.allclose(np.abs(A), 1.0)
    step = 1e-5
    for axis, moved in enumerate(([20.0 + step, -70.0 + step], [10.0 + step, 40.0 + step])):
        place = [[20.0, -70.0], [10.0, 40.0]]
        place[axis] = moved
        difference = (array.steering(*place, frequency=frequency) - A) / np.radians(step)
        np.testing.assert_allclose(difference, slopes[axis], atol=1e-4)


def test_azimuth_of_a_row_is_the_angle_from_broadside():
    phases = np.angle(arrays.linear(2, 0.5).steering([30.0])[:, 0])
    assert phases[1] - phases[0] == pytest.approx(2 * np.pi * 0.5 * np.sin(np.pi / 6))


@pytest.mark.parametrize("calibration", [0.0, 0.1])
def test_slope_and_information_of_the_likelihood(calibration):
    """The slope against finite differences; where the covariance is the model's, its slope is the information."""
    rng = np.random.default_rng(1)
    array = arrays.Array(rng.standard_normal((5, 2)), speed=343.0)
    frequencies = (200.0, 300.0)
    Y = arrays.simulate(array, [10.0, 60.0], [5.0, 30.0], snapshots=7, frequencies=frequencies, rng=rng)
    data = data_of(Y, array, None, frequencies, None, (0.0, 90.0), calibration)
    x = np.concatenate([np.radians([12.0, 4.0, 58.0, 33.0]), [0.1, -0.4, 0.3, 0.2], [-2.0, -3.0], np.zeros(10)])
    x[-10:] = 0.05 * rng.standard_normal(10) if calibration else 0.0

    def differences(data):
        pairs = []
        for i in range(x.size if calibration else x.size - 10):
            up, down = x.copy(), x.copy()
            up[i] += 1e-5
            down[i] -= 1e-5
            pairs.append((likelihood._terms(data, up, 2), likelihood._terms(data, down, 2)))
        return pairs

    slope = [(up[0] - down[0]) / 2e-5 for up, down in differences(data)]
    np.testing.assert_allclose(likelihood._terms(data, x, 2)[1][: len(slope)], slope, rtol=1e-5, atol=1e-4)
    model = []
    for f, frequency in enumerate(frequencies):
        B = np.exp(x[-10:-5] + 1j * x[-5:])[:, None] * array.steering([12.0, 58.0], [4.0, 33.0], frequency=frequency)
        model.append((B * np.exp(x[4 + 2 * f : 6 + 2 * f])) @ B.conj().T + np.exp(x[8 + f]) * np.eye(5))
    fitting = data._replace(R=np.array(model))
    curvature = np.array([(up[1] - down[1]) / 2e-5 for up, down in differences(fitting)])
    count = len(curvature)
    information = likelihood._terms(fitting, x, 2)[2][:count, :count]
    np.testing.assert_allclose(information, curvature[:, :count], rtol=1e-4, atol=1e-3 * np.abs(curvature).max())


def test_bound_of_one_source_in_closed_form():
    """For a row of n sensors: var ω = 6σ²/(L P n (n² − 1)) · (1 + σ²/(n P)), with ω = π sin θ."""
    n, L, P, sigma, theta = 9, 13, 2.0, 0.7, 25.0
    variance = 6 * sigma**2 / (L * P * n * (n**2 - 1)) * (1 + sigma**2 / (n * P))
    expected = np.degrees(np.sqrt(variance) / (np.pi * np.cos(np.radians(theta))))
    bound = arrays.cramer_rao(arrays.linear(n), [theta], snapshots=L, noise=sigma, covariance=P)
    np.testing.assert_allclose(bound, [expected])


def test_number_directions_and_honest_errors():
    array = arrays.linear(12)
    distances, right, scenes = [], 0, 16
    for seed in range(scenes):
        truth = np.array([-15.0, 4.0, 10.0]) + np.random.default_rng(seed).uniform(-5, 5)
        found = arrays.estimate_directions(arrays.simulate(array, truth, snapshots=15, snr_db=15, rng=seed), array)
        right += len(found) == 3
        if len(found) == 3:
            order = np.argsort(found.azimuth)
            distances.append((found.azimuth[order] - truth) / found.azimuth_error[order])
    assert right >= 0.9 * scenes
    assert 0.7 < np.sqrt(np.mean(np.square(distances))) < 1.4  # 1 for honest standard errors


def test_one_snapshot_and_coherent_sources_where_music_fails():
    array, truth = arrays.linear(16), np.array([3.0, 8.0])
    for options in ({"snapshots": 1, "snr_db": 30}, {"snapshots": 10, "snr_db": 20, "correlation": 1.0}):
        resolved = {"ours": 0, "music": 0}
        for seed in range(5):
            Y = arrays.simulate(array, truth, rng=seed, **options)
            ours, music = arrays.estimate_directions(Y, array).azimuth, arrays.music(Y, array, 2)
            for name, found in (("ours", ours), ("music", music)):
                resolved[name] += len(found) == 2 and bool((np.abs(np.sort(found) - truth) < 2.5).all())
        assert resolved["ours"] >= 4 > resolved["music"]


def test_noise_alone_has_no_source():
    rng = np.random.default_rng(0)
    for _ in range(5):
        Y = rng.standard_normal((20, 8)) + 1j * rng.standard_normal((20, 8))
        found = arrays.estimate_directions(Y, arrays.linear(8))
        assert len(found) == 0
        assert found.confidence > 0.8
        assert found.noise == pytest.approx(np.sqrt(2), rel=0.1)
    assert "0 sources, confidence" in found._repr_html_()
    assert "no source" in repr(found)
    assert found.plot().get_title().startswith("0 sources")


def test_without_noise():
    array, truth = arrays.linear(10), [-31.7, 12.3, 17.9]
    found = arrays.estimate_directions(arrays.simulate(array, truth, snr_db=250, snapshots=12, rng=0), array)
    np.testing.assert_allclose(np.sort(found.azimuth), truth, atol=1e-3)


def test_two_angles_on_a_circle_and_azimuths_that_go_around():
    array, truth = arrays.circular(10, 1.0), np.array([[179.9, 30.0], [60.0, 50.0]])
    Y = arrays.simulate(array, *truth.T, snapshots=30, snr_db=20, rng=0)
    found = arrays.estimate_directions(Y, array, elevation=(0, 90))
    places = np.column_stack([found.azimuth % 360, found.elevation])[np.argsort(-(found.azimuth % 360))]
    np.testing.assert_allclose(places, truth, atol=1.0)
    assert (found.azimuth_error < 0.3).all()
    assert (found.elevation_error < 0.5).all()


def test_frequencies_share_directions():
    array, frequencies = arrays.linear(6, 0.04, speed=343.0), np.linspace(1500, 4000, 4)
    Y = arrays.simulate(array, [-12.0, 9.0], snapshots=15, snr_db=15, frequencies=frequencies, rng=0)
    found = arrays.estimate_directions(Y, array, frequencies=frequencies)
    np.testing.assert_allclose(np.sort(found.azimuth), [-12.0, 9.0], atol=0.6)


def test_calibration_errors_are_learned():
    array, truth = arrays.linear(12), np.array([-20.0, 10.0, 18.0])
    Y = arrays.simulate(array, truth, snapshots=50, snr_db=20, calibration=0.1, rng=2)
    assert len(arrays.estimate_directions(Y, array)) > 3  # errors of gains look like sources
    found = arrays.estimate_directions(Y, array, calibration=0.1)
    order = np.argsort(found.azimuth)
    assert len(found) == 3
    assert (np.abs(found.azimuth[order] - truth) < 3 * found.azimuth_error[order]).all()


def test_an_answer_depends_neither_on_scale_nor_on_a_given_number():
    array = arrays.linear(8)
    Y = arrays.simulate(array, [-10.0, 20.0], snapshots=20, rng=0)
    found, scaled = (arrays.estimate_directions(scale * Y, array) for scale in (1.0, 1e6))
    np.testing.assert_allclose(found.azimuth, scaled.azimuth, atol=1e-6)
    given = arrays.estimate_directions(Y, array, sources=2)
    np.testing.assert_allclose(found.azimuth, given.azimuth, atol=1e-6)
    assert given.confidence == pytest.approx(found.confidence)  # a given number is no evidence
    assert [row["azimuth"] for row in found.table()] == found.azimuth.tolist()


@pytest.mark.parametrize("method", [arrays.music, arrays.capon, arrays.esprit])
def test_classical_methods_on_an_easy_scene(method):
    array = arrays.linear(10)
    Y = arrays.simulate(array, [-30.0, 25.0], snapshots=100, snr_db=20, rng=0)
    np.testing.assert_allclose(np.sort(method(Y, array, 2)), [-30.0, 25.0], atol=0.15)


@pytest.mark.parametrize("method", [arrays.music, arrays.esprit])
def test_smoothing_separates_coherent_sources(method):
    array = arrays.linear(12)
    Y = arrays.simulate(array, [-10.0, 10.0], snapshots=20, snr_db=25, correlation=1.0, rng=0)
    np.testing.assert_allclose(np.sort(method(Y, array, 2, smoothing=8)), [-10.0, 10.0], atol=0.6)


WORDS = [
    (lambda Y, a: arrays.estimate_directions(Y.T, a), "snapshots have 5 sensors, the array has 8; .* transpose"),
    (lambda Y, a: arrays.estimate_directions(Y.real, a), "snapshots are real; .*hilbert"),
    (lambda Y, a: arrays.estimate_directions(Y[:0], a), "there are no snapshots"),
    (lambda Y, a: arrays.estimate_directions(0 * Y, a), "all snapshots are zero"),
    (lambda Y, a: arrays.estimate_directions(Y * np.nan, a), "Y holds NaN at row 0"),
    (lambda Y, a: arrays.estimate_directions(Y[None], a), "several frequencies: give frequencies="),
    (
        lambda Y, a: arrays.estimate_directions(Y, a, frequencies=[1.0, 2.0]),
        r"2 frequencies need snapshots \(2, L, n\)",
    ),
    (lambda Y, a: arrays.estimate_directions(Y, a, frequencies=[100.0]), "positions are in wavelengths"),
    (lambda Y, a: arrays.estimate_directions(Y, arrays.linear(8, speed=343.0)), "give the frequencies of the waves"),
    (lambda Y, a: arrays.estimate_directions(Y, a, sources=8), "can tell at most 6 sources apart, got sources=8"),
    (lambda Y, a: arrays.estimate_directions(Y, a, elevation=(0, 90)), "cannot tell elevations"),
    (lambda Y, a: arrays.estimate_directions(Y, a, azimuth=(10, -10)), r"azimuth must be a range \(low, high\)"),
    (lambda Y, a: arrays.estimate_directions(Y, 8), r"array must be an Array .* arrays\.linear\(8, .*got 8"),
    (lambda Y, a: arrays.linear(1), "an array needs at least 2 sensors, got 1"),
    (lambda Y, a: arrays.Array([[0.0, 1.0, 2.0, 3.0]]), r"x, \(x, y\) or \(x, y, z\) of every sensor"),
    (lambda Y, a: arrays.Array([1.0, 1.0]), "all sensors are at one position"),
    (lambda Y, a: arrays.Array([1.0]), "at least 2 sensors, got 1"),
    (lambda Y, a: arrays.esprit(Y, arrays.circular(8), 1), "equal distances in a row"),
    (lambda Y, a: arrays.music(Y, a, 8), "fewer sources than sensors"),
    (lambda Y, a: arrays.cramer_rao(a, range(8), snapshots=1, noise=1.0), "8 sources need more than 8 sensors"),
]


@pytest.mark.parametrize(("call", "words"), WORDS, ids=[words[:25] for _, words in WORDS])
def test_bad_input_in_the_words_of_the_field(call, words):
    array = arrays.linear(8)
    with pytest.raises(ValueError, match=words):
        call(arrays.simulate(array, [10.0], snapshots=5, rng=0), array)


def recorded(path, angles, array, rate=16_000, seconds=1.0, noise=0.02, rng=0):
    """Write a recording of noise from far sources: delayed exactly, over all of its length at once."""
    from scipy.io import wavfile

    rng = np.random.default_rng(rng)
    N = int(rate * seconds)
    f = np.fft.rfftfreq(N, 1 / rate)
    sound = np.zeros((N, len(array)))
    for angle in angles:
        spectrum = np.where((f > 500) & (f < 4000), np.fft.rfft(rng.standard_normal(N)), 0)
        early = array.positions[:, 0] * np.sin(np.radians(angle)) / array.speed  # nearer sensors hear it first
        sound += np.fft.irfft(spectrum[:, None] * np.exp(2j * np.pi * f[:, None] * early), N, axis=0)
    sound += noise * rng.standard_normal(sound.shape)
    wavfile.write(path, rate, np.int16(sound / np.abs(sound).max() * 30_000))


@pytest.mark.parametrize(("angles", "noise"), [([-20.0, 35.0], 0.02), ([10.0], 0.002), ([-50.0, 0.0, 40.0], 0.1)])
def test_a_recording_has_its_sources_and_no_more(tmp_path, angles, noise):
    array = arrays.linear(6, 0.04, speed=343.0)
    recorded(tmp_path / "a.wav", angles, array, noise=noise)
    heard = arrays.read_snapshots(tmp_path / "a.wav", band=(500, 4000))
    assert heard.window == 0.032
    found = arrays.estimate_directions(heard.snapshots, array, frequencies=heard.frequencies, window=heard.window)
    assert len(found) == len(angles)
    assert np.abs(np.sort(found.azimuth) - angles).max() < 0.5


def test_blur_is_the_power_that_pieces_of_a_recording_have_beyond_a_plane_wave():
    """Against the second eigenvalue of pieces cut from a source at the end of the array."""
    array = arrays.linear(5, 0.05, speed=343.0)
    rng, rate, length = np.random.default_rng(0), 48_000, 480
    N = 2**18
    f = np.fft.rfftfreq(N, 1 / rate)
    late = np.exp(-2j * np.pi * f[:, None] * array.positions[:, 0] / array.speed)
    sound = np.fft.irfft(np.fft.rfft(rng.standard_normal(N))[:, None] * late, N, axis=0)
    pieces = np.lib.stride_tricks.sliding_window_view(sound, length, axis=0)[::length]
    spectra = np.fft.rfft(pieces * np.hanning(length), axis=2)[:, :, 20:120]
    seen = [np.linalg.eigvalsh(np.einsum("la,lb->ab", Z, Z.conj())) for Z in spectra.transpose(2, 0, 1)]
    shares = [values[-2] / (values.sum() / 5) for values in seen]
    assert array.blur(length / rate) == pytest.approx(np.mean(shares), rel=0.05)
    with pytest.raises(ValueError, match="give speed"):
        arrays.linear(4).blur(0.01)
