"""The material that a scene shares, and the refit with an even albedo."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from maxsparse import stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo import even_albedo
from maxsparse.stereo.even_albedo import refit_evenly
from maxsparse.stereo.material import Material, find_material, fit_as_if_matt
from maxsparse.stereo.methods import find_method


def lobe(n, lights, roughness, f0):
    """GGX times the cosine, (P, q), written with whole arrays; its peak at normal incidence is f0/(4 roughness⁴)."""
    half = lights + np.array([0, 0, 1.0])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    nl, nh, nv = np.maximum(n @ lights.T, 0), n @ half.T, n[:, 2:]
    a = roughness**2
    D = a**2 / (nh**2 * (a**2 - 1) + 1) ** 2
    G1 = nl / (nl * (1 - a / 2) + a / 2)
    G2 = 1 / (nv * (1 - a / 2) + a / 2)
    fresnel = f0 + (1 - f0) * (1 - (lights * half).sum(axis=1)) ** 5
    return D * G1 * G2 * fresnel / 4


def glossy_scene(q=30, size=48, gloss=0.3, roughness=0.33, noise=0.001, texture=False):
    """A ball whose roughness is none of those in the dictionary, and what it would read were it matt."""
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    inside = x**2 + y**2 < 0.85
    normals = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    lights = stereo.hemisphere_lights(q, lowest=0.3, rng=1)
    n = normals[inside]
    albedo = np.full(len(n), 0.6)
    if texture:
        albedo[np.nonzero(inside)[1] % 7 < 3] = 0.3
    matt = albedo[:, None] * np.maximum(n @ lights.T, 0)
    o = matt + gloss * albedo[:, None] * lobe(n, lights, roughness, 1.0)
    o = np.maximum(o * (1 + noise * np.random.default_rng(0).standard_normal(o.shape)), 0)
    return stereo.make_scene(o.T.copy(), lights, mask=inside, normals=normals), matt


def true_fit(scene, matt):
    n = scene.normals[scene.mask]
    albedo = np.full(len(n), 0.6)
    return stereo.Fit(n, albedo, matt > 0, np.ones(len(n)))


def test_a_material_explains_readings_it_did_not_see():
    scene, matt = glossy_scene(noise=0.0)
    material = find_material(scene.readings, scene.lights, true_fit(scene, matt))
    assert (material.weights >= 0).all()
    assert material.scatter < 0.003
    other = stereo.hemisphere_lights(17, lowest=0.35, rng=9)
    n = scene.normals[scene.mask]
    o = 0.6 * np.maximum(n @ other.T, 0) + 0.3 * 0.6 * lobe(n, other, 0.33, 1.0)
    expected = 0.6 * np.maximum(n @ other.T, 0)
    found = material.divided_out(o, other, n)
    front = (n @ other.T > 0.1) & (n[:, 2:] > 0.3)
    assert (np.abs(found - expected) / np.maximum(o, 0.1))[front].max() < 0.05
    assert np.median(np.abs(found - expected)[front]) < 0.003 < np.median(np.abs(o - expected)[front])


def test_a_matt_material_changes_nothing():
    readings, lights = np.random.default_rng(0).random((6, 5)), stereo.hemisphere_lights(5, rng=0)
    n = np.tile([0.0, 0.6, 0.8], (6, 1))
    np.testing.assert_allclose(Material.matt(0.01).divided_out(readings, lights, n), readings, rtol=1e-12)


def test_dividing_the_material_out_brings_normals_closer():
    scene, _ = glossy_scene()
    before = stereo.estimate_normals(scene, "consensus").mean_error
    after = stereo.estimate_normals(scene, "consensus", material=True).mean_error
    assert after < 0.4 * before
    assert stereo.estimate_normals(scene).mean_error < 0.6 * stereo.estimate_normals(scene, material=False).mean_error


def test_a_correction_that_does_not_prove_itself_is_dropped():
    scene, _ = glossy_scene(gloss=0.0, noise=0.01)
    first = find_method("ls")(scene.readings.astype(float), scene.lights)
    calls = []

    def solve(material, normals):
        calls.append(material)
        return first if material is None else replace(first, normals=first.normals[::-1].copy())

    fit, material = fit_as_if_matt(solve, scene.readings, scene.lights)
    assert fit is first
    assert len(calls) == 2
    assert calls[0] is None
    np.testing.assert_array_equal(material.weights, Material.matt(0.0).weights)
    assert material.scatter == calls[1].scatter


def test_few_or_dark_pixels_have_no_material():
    scene, matt = glossy_scene(size=10)
    assert find_material(scene.readings, scene.lights, true_fit(scene, matt)) is None
    scene, matt = glossy_scene()
    assert find_material(np.zeros_like(matt), scene.lights, true_fit(scene, matt)) is None
    dark = stereo.make_scene(np.zeros((6, 30, 30)), stereo.hemisphere_lights(6, rng=0))
    assert not stereo.estimate_normals(dark).normals.any()


def cost(x, o, lights, lit, albedo, spread, sigma):
    """The function that the refit minimises, from its docstring."""
    length = np.linalg.norm(x)
    r = (o - np.maximum(lights @ x, 0))[lit] / length
    z2 = (r / (sigma * np.where(r > 0, 1.0, 3.0))) ** 2
    p2 = ((np.log(length) - np.log(albedo)) / spread) ** 2
    return (z2 / (1 + z2)).sum() + p2 / (1 + p2 / 2)


@pytest.fixture
def few_readings():
    """A matt scene of which shadows leave four readings a pixel, one of them too bright; a fit that believes it."""
    scene, _ = glossy_scene(q=8, gloss=0.0, noise=0.002)
    rng = np.random.default_rng(5)
    o = np.array(scene.readings, dtype=float)
    n = scene.normals[scene.mask]
    poor = rng.random(len(o)) < 0.1
    for row in np.flatnonzero(poor):
        lit = rng.permutation(np.flatnonzero(o[row] > 0.1))[:4]
        o[row, np.setdiff1d(np.arange(8), lit)] = 0.0
        o[row, lit[0]] *= 1.3
    rough = n + 0.15 * poor[:, None] * rng.standard_normal(n.shape)
    rough /= np.linalg.norm(rough, axis=1, keepdims=True)
    fit = stereo.Fit(rough, np.full(len(n), 0.6), o > 0, np.where(poor, 0.1, 0.9))
    material = Material.matt(0.003)
    return o, scene, n, poor, fit, material


def test_known_albedo_settles_pixels_with_few_readings(few_readings):
    o, scene, n, poor, fit, material = few_readings
    found = refit_evenly(o, scene.lights, fit, scene.mask, material)
    assert np.median(angular_error(found.normals, n)[poor]) < 1.0 < np.median(angular_error(fit.normals, n)[poor])
    assert angular_error(found.normals, n)[~poor].mean() < 0.5


def test_the_refit_is_a_minimum_of_its_cost(few_readings):
    o, scene, _, poor, fit, material = few_readings
    found = refit_evenly(o, scene.lights, fit, scene.mask, material)
    for row in np.flatnonzero(~poor)[::40]:
        x = found.normals[row] * found.albedo[row]
        arguments = (o[row], scene.lights, o[row] > 0.02, 0.6, 0.01, 0.006)
        best = minimize(cost, x, arguments, "Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
        assert cost(x, *arguments) < best.fun + 0.02


def test_the_refit_keeps_away_from_scatter_and_does_not_depend_on_chunks(few_readings, monkeypatch):
    o, scene, _, _, fit, material = few_readings
    assert refit_evenly(o, scene.lights, fit, scene.mask, Material(material.weights, 0.02)) is fit
    whole = refit_evenly(o, scene.lights, fit, scene.mask, material)
    monkeypatch.setattr(even_albedo, "CHUNK_PIXELS", 37)
    pieces = refit_evenly(o, scene.lights, fit, scene.mask, material)
    np.testing.assert_array_equal(whole.normals, pieces.normals)
    np.testing.assert_array_equal(whole.albedo, pieces.albedo)


def test_a_painted_surface_is_not_made_even():
    scene, _ = glossy_scene(texture=True)
    assert stereo.estimate_normals(scene).mean_error < stereo.estimate_normals(scene, material=False).mean_error
    albedo = stereo.estimate_normals(scene).albedo[scene.mask]
    dark = np.nonzero(scene.mask)[1] % 7 < 3
    assert abs(np.median(albedo[dark]) / np.median(albedo[~dark]) - 0.5) < 0.02
