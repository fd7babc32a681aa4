"""The experiments of this package at their smallest size, and the problems they are built from."""

import importlib
import itertools
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import maxsparse as ms
from maxsparse import experiments
from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.bases import clustered_bases, two_bases, unbiased_constant
from maxsparse.experiments.clustered_problems import cancelling, clustered_signals, longest, nested_signals, signs_agree

NAMES = [entry.name for entry in EXPERIMENTS.entries() if not entry.outside]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Return one folder for all experiments: they share networks."""
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize("name", NAMES)
def test_smoke(name, output):
    outcome = experiments.run(name, preset="smoke", output=output)
    experiment = experiments.get(name)
    assert [v.claim for v in outcome.verdicts] == list(experiment.claims)
    results = json.loads((outcome.folder / "results.json").read_text())
    assert results["figures"]
    for figure in results["figures"]:
        assert ET.parse(outcome.folder / f"{figure['name']}.svg").getroot().tag.endswith("svg")
        assert (outcome.folder / f"{figure['name']}.png").read_bytes().startswith(b"\x89PNG")
    if name == "stereo":  # it measures angles
        return
    accuracies = [
        value
        for task in results["tasks"]
        for record in task["records"]
        for measure, value in record["values"].items()
        if measure.startswith("strict") and value is not None  # none for a group without signals
    ]
    assert accuracies
    assert all(0.0 <= value <= 1.0 for value in accuracies)


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_there_and_its_tasks_are_distinct(name):
    experiment = experiments.get(name)
    assert list(experiment.presets) == list(experiments.PRESETS)
    for settings in experiment.presets.values():
        tasks = [json.dumps(task, sort_keys=True) for task in experiment.tasks(settings, experiment.methods)]
        assert len(set(tasks)) == len(tasks) > 0
        json.dumps(settings, allow_nan=False)
    assert len(experiment.presets["laptop"]["seeds"]) >= 3


def test_the_same_numbers_from_two_processes(tmp_path):
    one = experiments.run("rank-one", preset="smoke", methods=["iht"], output=tmp_path / "one")
    two = experiments.run("rank-one", preset="smoke", methods=["iht"], output=tmp_path / "two", jobs=2)
    first, second = (json.loads((outcome.folder / "results.json").read_text()) for outcome in (one, two))
    assert first["summary"] == second["summary"]


def test_stereo_measures_every_method(output):
    outcome = experiments.run("stereo", preset="smoke", output=output)
    results = json.loads((outcome.folder / "results.json").read_text())
    records = [record for task in results["tasks"] for record in task["records"]]
    records = [record for record in records if "scene" not in record["where"]]
    errors = {(r["where"]["q"], r["where"]["method"]): r["values"]["degrees"] for r in records if r["values"]}
    assert {q for q, _ in errors} == {8, 12}
    for q in (8, 12):  # the ball is glossy: a fit to all readings errs, one that leaves highlights out does not
        assert errors[q, "consensus"] < 0.5 * errors[q, "ls"]
        assert errors[q, "auto"] < errors[q, "ls"]
    assert {table["name"] for table in results["tables"]} == {"degrees", "seconds", "degrees-close", "paper"}


def test_stereo_takes_methods_and_seeds_one_by_one(output, tmp_path, monkeypatch):
    experiment = experiments.get("stereo")
    monkeypatch.setattr(
        type(experiment), "presets", {"smoke": {**experiment.presets["smoke"], "lights": [8], "seeds": [0, 1]}}
    )
    outcome = experiments.run("stereo", preset="smoke", methods=["ls", "rnd4"], seeds=[1], output=tmp_path)
    assert outcome.tasks == 5  # two scenes, and the true normals
    results = json.loads((outcome.folder / "results.json").read_text())
    assert [figure["name"] for figure in results["figures"]] == ["stereo", "stereo-0"]
    assert "error maps of draw 1" in results["figures"][0]["caption"]
    assert all("map" not in row["where"] and "truth" not in row["where"] for row in results["summary"])
    results = json.loads(
        (experiments.run("stereo", preset="smoke", methods=["ls"], output=tmp_path).folder / "results.json").read_text()
    )
    cells = results["tables"][0]["rows"][0]  # two draws of one method, one of the other
    assert ["±" in cell for cell in cells] == [False, True, False]
    with pytest.raises(ValueError, match=r"there is no method 'ista'\. Available: ls"):
        experiments.run("stereo", preset="smoke", methods=["ista"], output=tmp_path)


def test_stereo_goes_with_its_weights_and_with_registered_methods(monkeypatch, registries):
    from maxsparse.experiments import stereo as module
    from maxsparse.stereo.methods import METHODS

    experiment = experiments.get("stereo")
    before = experiment.depends({"method": "auto"})
    assert len(before) == 1
    assert experiment.depends({"method": "ls"}) == []
    monkeypatch.setattr(module, "bundled_digest", lambda: "of other weights")
    assert experiment.depends({"method": "auto"}) != before
    METHODS.register("mine", lambda readings, lights: METHODS["ls"](readings, lights), label="Mine")
    assert experiment.known_methods()[-1] == "mine"


def test_stereo_takes_another_law_of_outliers_and_survives_a_divergence(tmp_path, monkeypatch):
    from maxsparse import training
    from maxsparse.stereo.methods import network

    train, given = network.train_network, []

    def watched(lights, path, **options):
        given.append(options)
        if len(lights) == 12:
            raise training.DivergenceError("long message", "the loss became nan", 256)
        train(lights, path, **{**options, "samples": 256})

    monkeypatch.setattr(network, "train_network", watched)
    law = {"outliers": [1, 3], "mean": 0.5, "variance": 0.01}
    options = {"preset": "smoke", "methods": ["network"], "output": tmp_path}
    for _ in range(2):  # the second time the note is read
        outcome = experiments.run("stereo", **options, changes={"network": law}, fresh=True)
    assert [{name: each[name] for name in law} for each in given] == [law, law]  # 8 and 12 lights, once each
    results = json.loads((outcome.folder / "results.json").read_text())
    assert results["command"].endswith("--outliers 1:3 --mean 0.5 --variance 0.01 --methods network")
    assert results["settings"]["network"]["mean"] == 0.5
    of_task = {(t["task"].get("q"), t["task"].get("scene")): t["records"][0] for t in results["tasks"]}
    assert of_task[8, None]["values"]["degrees"] > 0
    assert of_task[12, None]["where"]["diverged"].startswith("training diverged: residual: the loss became nan")
    with pytest.raises(ValueError, match="there is no setting 'networks'; did you mean 'network'"):
        experiments.run("stereo", **options, changes={"networks": {}})


def test_the_computed_scene_is_matt_with_one_highlight():
    from maxsparse.experiments.stereo_rigs import GLOSS, ROUGHNESS, _glossy

    towards, aside = np.array([0.0, 0.0, 1.0]), np.array([0.6, 0.0, 0.8])
    normals = np.array([[towards, aside, -towards]])
    images = _glossy(normals, np.array([towards, [0.0, 0.6, 0.8]]))
    # Light, normal and camera in one line: GGX is 1/(πα²) there, masking 1, Fresnel's factor one half.
    assert images[0, 0, 0] == pytest.approx(0.5 + GLOSS * 0.5 / (4.0 * ROUGHNESS**2), rel=1e-6)
    assert images[1, 0, 1] == pytest.approx(0.5 * 0.64, rel=0.05)  # far from the highlight
    assert (images[:, 0, 2] == 0.0).all()  # attached shadow


def test_stereo_renders_a_draw_once(tmp_path, monkeypatch):
    from maxsparse.experiments import stereo_rigs

    rendered = []

    def render(lights, *, size, rng):
        rendered.append(rng)
        return stereo_rigs._ball(size, lights)

    monkeypatch.setattr(stereo_rigs.stereo, "render", render)
    settings = {"object": "bunny", "size": 16, "lights": [6, 12]}
    first = stereo_rigs.photographs(settings, 3, tmp_path)
    stereo_rigs._photographs.cache_clear()  # as another process would begin
    second = stereo_rigs.photographs(settings, 3, tmp_path)
    assert rendered == [3]
    assert len(first.lights) == 12
    for name in ("readings", "lights", "mask", "normals"):
        np.testing.assert_allclose(getattr(second, name), getattr(first, name), rtol=1e-6)


def test_clustered_claims_about_methods_that_were_not_run_are_untested(output):
    outcome = experiments.run("clustered", preset="smoke", output=output)
    results = json.loads((outcome.folder / "results.json").read_text())
    records = [
        experiments.Record(r["where"], {k: np.nan if v is None else v for k, v in r["values"].items()})
        for task in results["tasks"]
        for r in task["records"]
    ]
    experiment = experiments.get("clustered")
    settings = experiment.presets["smoke"]
    of_all = {v.claim.key: v.verdict for v in experiment.judge(settings, experiments.Data(records))}
    without = [r for r in records if r.where.get("method") not in ("iht", "l1", "sbl-whitened", "aiht")]
    of_rest = {v.claim.key: v.verdict for v in experiment.judge(settings, experiments.Data(without))}
    for key in ("iht", "l1", "l1-alone", "sbl", "beyond", "unscaled", "nested"):
        assert of_all[key] != "untested"
        assert of_rest[key] == "untested"


def test_unbiased_bases():
    dictionary = clustered_bases(16, 0.01, np.random.default_rng(0))
    first, second = dictionary.details[:, 0::2], dictionary.details[:, 1::2]
    for basis in (first, second):
        np.testing.assert_allclose(basis.T @ basis, np.eye(16), atol=1e-12)
    for a, b in itertools.combinations((np.eye(16), first, second), 2):
        np.testing.assert_allclose(np.abs(a.T @ b), 0.25, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(dictionary.matrix, axis=0), 1.0)
    rebuilt = dictionary.centers[:, dictionary.labels] * dictionary.scales + 0.01 * dictionary.details
    np.testing.assert_allclose(dictionary.matrix, rebuilt * dictionary.norms)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_bound_for_unbiased_bases_against_enumeration(k):
    two = two_bases(16)
    assert float(ms.theory.rip_constant(two, k)) == pytest.approx(unbiased_constant(16, 2, k))  # attained here
    dictionary = clustered_bases(16, 0.01, np.random.default_rng(0))
    three = np.hstack([dictionary.centers, dictionary.details])
    assert float(ms.theory.rip_constant(three, k)) <= unbiased_constant(16, 3, k) + 1e-12


def test_clustered_signals_have_the_sparsity_asked_for():
    dictionary = ms.dictionaries.clustered(20, 60, clusters=20, epsilon=0.1, rng=0)
    X, Y = clustered_signals(dictionary, 200, 5, 3, np.random.default_rng(0))
    assert ((X != 0).sum(axis=1) == 5).all()
    for x in X:
        assert np.unique(dictionary.labels[x != 0]).size == 3
    np.testing.assert_allclose(Y, X @ dictionary.matrix.T)
    assert np.abs(X[X != 0]).min() >= 0.1
    assert np.abs(X).max() <= 0.5


def test_nested_signals_have_the_counts_asked_for():
    nested = ms.dictionaries.nested(20, 120, clusters=(8, 40), rng=0)
    X = nested_signals(nested.parents, 100, (2, 3, 5), 8, np.random.default_rng(0))
    outer, inner = nested.parents
    for x in X:
        used = np.flatnonzero(x)
        assert [np.unique(outer[inner[used]]).size, np.unique(inner[used]).size, used.size] == [2, 3, 5]


def test_signals_that_cancel_and_atoms_that_are_long():
    dictionary = ms.dictionaries.clustered(20, 60, clusters=20, epsilon=1e-3, normalise=False, rng=0)
    X = cancelling(dictionary, 50, np.random.default_rng(0))
    sums = X @ np.eye(20)[dictionary.labels]
    assert not sums.any()
    assert ((X != 0).sum(axis=1) == 2).all()
    scores = np.linalg.norm(dictionary.matrix, axis=0)[None]
    in_each = np.zeros((1, 60))
    for cluster in range(20):
        inside = np.flatnonzero(dictionary.labels == cluster)
        in_each[0, inside[np.argmax(scores[0, inside])]] = 1.0
    assert longest(dictionary, in_each, 20) == 1.0
    assert longest(dictionary, 1.0 - in_each, 40) == 0.0


def test_signs_within_clusters():
    X = np.array([[1.0, 2.0, 0.0, -1.0], [1.0, -2.0, 0.0, 0.0], [0.0, 0.0, -1.0, -1.0], [0.0, 0.0, 0.0, 0.0]])
    assert signs_agree(X, np.array([0, 0, 1, 1])).tolist() == [True, False, True, True]


def test_aiht_recovers_where_the_condition_is_proved():
    """Proposition 3 at its word: δ_4 of [U, A] below 1/√32, small ε, every support right."""
    n = 256
    assert unbiased_constant(n, 3, 4) < ms.theory.IHT_THRESHOLD
    for epsilon in (1e-3, 1e-6):
        dictionary = clustered_bases(n, epsilon, np.random.default_rng(0))
        X, Y = clustered_signals(dictionary, 40, 1, 1, np.random.default_rng(1))
        result = ms.solvers.aiht(dictionary, Y, sparsity=1, cluster_sparsity=1)
        assert ms.metrics.strict_accuracy(X, result.scores) == 1.0


def test_the_lstm_experiment_shows_the_validations_of_its_trainings(output):
    """Every point is an entry of the history that the file of the network holds."""
    from maxsparse.experiments.recipes import Store

    outcome = experiments.run("lstm", preset="smoke", output=output)
    results = json.loads((outcome.folder / "results.json").read_text())
    experiment = experiments.get("lstm")
    settings = experiment.presets["smoke"]
    rows = [r for task in results["tasks"] for r in task["records"] if r["where"].get("kind") == "training"]
    assert {r["where"]["method"] for r in rows} == {"lstm", "residual"}
    store = Store(output / ".networks")
    for row in rows:
        (recipe,) = experiment.recipes(settings, row["where"])
        history = store.about(recipe)["report"]["history"]
        seen = {entry["samples"]: dict(zip(entry["d"], entry["strict"], strict=True)) for entry in history}
        assert row["values"]["strict"] == seen[row["where"]["signals"]][row["where"]["d"]]


def test_stereo_laws_and_draws_of_the_day_preset(tmp_path, monkeypatch):
    """Ten draws with few lights, three with more; every scene has a law of its own, up to 0.4 q outliers."""
    from maxsparse.experiments import stereo_rigs
    from maxsparse.experiments.recipes import Store

    experiment = experiments.get("stereo")
    settings = experiment.presets["day"]
    drawn = [(t["q"], t["seed"]) for t in experiment.tasks(settings, ["ls"]) if "scene" not in t and "q" in t]
    assert drawn == [(10, seed) for seed in range(10)] + [(q, seed) for q in (20, 40) for seed in range(3)]
    given = []
    module = importlib.import_module("maxsparse.stereo.methods.network")
    monkeypatch.setattr(module, "train_network", lambda lights, path, **law: given.append(law) or path.touch())
    lights, scenes = ms.stereo.hemisphere_lights(20, rng=0), (None, *settings["scenes"])
    paths = {stereo_rigs.trained_network(settings, lights, 0, Store(tmp_path), scene) for scene in scenes}
    assert len(paths) == 2
    assert [law["outliers"] for law in given] == [[1, 8], [1, 8]]
    assert [(law["mean"], law["variance"]) for law in given] == [(0.0, 0.25), (0.3, 0.02)]
    assert all(law["settings"].batch_size == 2000 and law["samples"] == 20_000_000 for law in given)
