"""Networks are trained once, shared by all experiments, and resumed where training was stopped."""

import json
from dataclasses import fields, replace

import pytest
import torch

import maxsparse as ms
from maxsparse import experiments, networks, training
from maxsparse.experiments.recipes import Diverged, Recipe, Store, current_store, using_store
from maxsparse.experiments.training_plans import NETWORK_METHODS, PLANS, Training

NETWORKS = ("residual", "ista_net", "iht_net", "lstm")
LONG = [name for name in NETWORK_METHODS if name != "ista-net"]  # the cheapest is resumed in every run of the tests
RECIPE = Recipe(
    "residual",
    8,
    16,
    0,
    256,
    sparsity=(1, 2),
    hyperparameters={"depth": 4, "width": 16},
    changes={"batch_size": 32, "rounds": 4},
)


def equal(first, second):
    weights = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in weights)


def test_every_part_of_a_recipe_changes_its_key():
    other = {"network": "lstm", "amplitudes": "unit", "loss": "sigmoid", "preset": "paper", "sparsity": (1, 3)}
    other["changes"] = {"batch_size": 64}
    for field in fields(Recipe):
        value = getattr(RECIPE, field.name)
        changed = other.get(field.name) or ({"whiten": False} if isinstance(value, dict) else (value or 0) + 1)
        assert replace(RECIPE, **{field.name: changed}).key != RECIPE.key, field.name


def test_a_network_is_trained_as_suits_its_class_and_a_changed_rate_trains_it_anew(tmp_path, monkeypatch):
    rates = {name: replace(RECIPE, network=name, hyperparameters={}).settings.learning_rate for name in NETWORKS}
    assert (rates["residual"], rates["ista_net"]) == (6e-3, 1e-3)
    Store(tmp_path, "cpu").network(RECIPE)
    assert networks.load(Store(tmp_path).path(RECIPE)).about["settings"]["learning_rate"] == 6e-3
    key = RECIPE.key
    monkeypatch.setattr(networks.NETWORKS["residual"], "learning_rate", 1e-3)
    assert RECIPE.key != key


def test_a_network_is_trained_once(tmp_path, monkeypatch):
    first = Store(tmp_path, "cpu").network(RECIPE)
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained again"))
    store = Store(tmp_path, "cpu")
    assert store.has(RECIPE)
    assert equal(store.network(RECIPE), first)


def test_a_stopped_training_is_resumed_to_the_same_bits(tmp_path, monkeypatch):
    whole, resumed = stopped_and_resumed(RECIPE, tmp_path, monkeypatch)
    assert equal(resumed, whole)


def stopped_and_resumed(recipe, tmp_path, monkeypatch):
    """Return a network that was trained at once, and the same one trained in two parts."""
    whole = Store(tmp_path / "whole", "cpu").network(recipe)
    validate, calls = training.run.Run.validate, []

    def stop_at_the_second(run):
        calls.append(run)
        if len(calls) == 2:
            raise KeyboardInterrupt
        validate(run)

    store = Store(tmp_path / "stopped", "cpu")
    monkeypatch.setattr(training.run.Run, "validate", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        store.network(recipe)
    assert store.path(recipe).exists()  # the best so far
    assert not store.has(recipe)
    monkeypatch.setattr(training.run.Run, "validate", validate)
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("began anew"))
    return whole, store.network(recipe)


def test_methods_need_a_store(tmp_path):
    with pytest.raises(RuntimeError, match="inside using_store"):
        current_store()
    store = Store(tmp_path)
    with using_store(store):
        assert current_store() is store


@pytest.mark.parametrize("preset", list(experiments.PRESETS))
def test_one_residual_network_serves_five_experiments(preset):
    found = set()
    names = ["basic", "runtime"], ["ablations", "distributions", "data-size"]
    for name in names[0] + names[1] if preset != "day" else names[1]:
        experiment = experiments.get(name)
        settings = experiment.presets[preset]
        tasks = [t for t in experiment.tasks(settings, ["residual"]) if t["seed"] == 0 and t.get("d", 5) in (2, 5)]
        keys = {recipe.key for task in tasks for recipe in experiment.recipes(settings, task)}
        found = keys if not found else found & keys
    assert found


def test_plans():
    training = Training(PLANS["laptop"], 20, 100, 3, 4, (1, 10))
    whole, tenth = training.recipe("residual"), replace(training, share=0.1).recipe("residual")
    assert whole.sparsity == (1, 10)
    assert whole.set_size is None
    assert (tenth.samples, tenth.set_size) == (whole.samples, whole.samples // 10)
    paper = replace(training, plan=PLANS["paper"])
    assert paper.recipe("residual").sparsity == (4, 4)
    assert paper.recipe("residual").hyperparameters == {"whiten": False}  # 20 layers are the network's own default
    tenfold = replace(paper, share=10.0).recipe("residual")
    assert (tenfold.samples, tenfold.set_size) == (900_000_000, 6_000_000)
    assert training.recipe("residual-helu").hyperparameters["activation"] == "helu"
    assert len({training.recipe(name).key for name in NETWORK_METHODS}) == len(NETWORK_METHODS)


def test_a_training_that_diverges_is_a_row_and_not_the_end(tmp_path, monkeypatch):
    fit, calls = training.fit, []

    def diverging(Phi, network, **options):
        if network != "ista_net":
            return fit(Phi, network, **options)
        calls.append(network)
        raise training.DivergenceError("long message", "the loss became nan", 4_000)

    monkeypatch.setattr(training, "fit", diverging)
    for _ in range(2):  # the second run reads the note
        options = {"preset": "smoke", "methods": ["residual", "ista-net"], "output": tmp_path, "device": "cpu"}
        outcome = experiments.run("basic", **options, fresh=True)
    assert len(calls) == 1
    results = json.loads((outcome.folder / "results.json").read_text())
    rows = {row[0]: row[1:] for row in results["tables"][0]["rows"]}
    assert rows["ISTA-Net"] == ["diverged", "diverged"]
    assert all(0.0 <= float(cell) <= 1.0 for cell in rows["residual network"])
    noted = [r["where"]["diverged"] for t in results["tasks"] for r in t["records"] if "diverged" in r["where"]]
    assert len(noted) == 2
    assert noted[0].startswith("training diverged: ista_net: the loss became nan after 4,000 signals (remove ")
    store, recipe = Store(tmp_path / ".networks"), Training(PLANS["smoke"], 8, 16, 0, 1, (1, 2)).recipe("ista-net")
    away = Store(tmp_path / "away")
    away.write(recipe, store.read(recipe))  # as it comes back from a cluster
    with pytest.raises(Diverged, match="the loss became nan"):
        away.network(recipe)


PAPER_NETWORKS = [(method, "unit" if NETWORK_METHODS[method][0] == "lstm" else "uniform") for method in NETWORK_METHODS]


@pytest.mark.long
@pytest.mark.parametrize(("method", "amplitudes"), [*PAPER_NETWORKS, ("residual", "unit"), ("residual", "gaussian")])
@pytest.mark.parametrize("d", [1, 3, 10])
def test_every_network_of_the_paper_preset_trains_200_000_signals(method, amplitudes, d):
    recipe = Training(PLANS["paper"], 20, 100, 0, d, (1, 10), amplitudes=amplitudes).recipe(method)
    settings = recipe.settings.but(schedule="constant")  # the paper's largest rate, from the first signal to the last
    first = []
    _, report = training.fit(
        ms.dictionaries.decaying(20, 100, rng=0),
        recipe.network,
        sparsity=d,
        amplitudes=amplitudes,
        loss=recipe.loss,
        set_size=recipe.set_size,
        settings=settings.but(rounds=20),
        hyperparameters=recipe.hyperparameters,
        samples=200_000,
        rng=0,
        n_threads=1,
        callback=lambda report: first.append(report.loss),
    )
    assert report.finished
    assert report.skipped == 0
    assert first[-1] < first[0]


@pytest.mark.long
def test_ten_times_the_signals_of_the_paper_preset_train():
    """Experiment data-size: the signals of one epoch are ten times as many, the steps that this test makes the same."""
    once, more = (Training(PLANS["paper"], 20, 100, 0, 3, (1, 10), share=share).recipe("residual") for share in (1, 10))
    assert more == replace(once, set_size=10 * once.set_size, samples=10 * once.samples)


@pytest.mark.long
@pytest.mark.parametrize("method", ["iht-net", "residual-squares"])
def test_the_settings_of_the_paper_diverge_without_clipping(method):
    recipe = Training(PLANS["paper"], 20, 100, 0, 3, (1, 10)).recipe(method)
    assert recipe.changes.pop("clip") == 1.0
    with pytest.raises(training.DivergenceError):
        training.fit(
            ms.dictionaries.decaying(20, 100, rng=0),
            recipe.network,
            sparsity=3,
            loss=recipe.loss,
            set_size=recipe.set_size,
            settings=recipe.settings,
            hyperparameters=recipe.hyperparameters,
            samples=600_000,
            rng=0,
            n_threads=1,
        )


@pytest.mark.parametrize("method", ["ista-net", *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_every_network_of_the_paper_preset_resumes_to_the_same_bits(tmp_path, monkeypatch, method):
    recipe = Training(PLANS["paper"], 20, 100, 0, 3, (1, 10)).recipe(method)
    recipe = replace(recipe, samples=2_000, changes={**recipe.changes, "rounds": 4})
    whole, resumed = stopped_and_resumed(recipe, tmp_path, monkeypatch)
    assert equal(resumed, whole)


def test_recurrent_cells_of_the_day_preset():
    """GRU and gated feedback are trained like the LSTM, and differ from it in the cell alone."""
    settings = experiments.get("gated").presets["day"]
    training = Training(settings["training"], 20, 100, 0, 1, (1, 10), amplitudes="unit")
    lstm, *others = (training.recipe(name) for name in ("lstm", "gru", "lstm-feedback", "gru-feedback"))
    assert (lstm.samples, lstm.hyperparameters) == (600_000, {"hidden": 425})
    added = [recipe.hyperparameters.items() - lstm.hyperparameters.items() for recipe in others]
    assert added == [{("cell", "gru")}, {("feedback", True)}, {("cell", "gru"), ("feedback", True)}]
    assert all(replace(recipe, hyperparameters=lstm.hyperparameters) == lstm for recipe in others)
    tasks = experiments.get("gated").tasks(settings, experiments.get("gated").methods)
    needed = {r.key for task in tasks for r in experiments.get("gated").recipes(settings, task)}
    assert needed == {recipe.key for recipe in (lstm, *others)}


def test_a_network_of_the_zoo_is_used_unless_it_shall_be_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXSPARSE_ZOO", str(tmp_path / "zoo"))
    (tmp_path / "zoo").mkdir()
    options = {"preset": "smoke", "methods": ["residual"], "device": "cpu"}
    first = experiments.run("basic", **options, output=tmp_path / "first")
    assert first.pretrained == []
    recipe = Training(PLANS["smoke"], 8, 16, 0, 1, (1, 2)).recipe("residual")
    networks.add_pretrained("smoke-8x16", Store(tmp_path / "first" / ".networks").path(recipe))
    assert Store(tmp_path).pretrained(recipe) == "smoke-8x16"
    assert Store(tmp_path).pretrained(replace(recipe, samples=97)) is None
    assert Store(tmp_path).pretrained(replace(recipe, changes={**recipe.changes, "learning_rate": 0.1})) is None
    assert Store(tmp_path).pretrained(replace(recipe, hyperparameters={"depth": 6, "width": 16})) is None
    fit = training.fit
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained"))
    second = experiments.run("basic", **options, output=tmp_path / "second")
    assert second.pretrained == ["smoke-8x16"]
    assert json.loads((second.folder / "results.json").read_text())["pretrained"] == ["smoke-8x16"]
    monkeypatch.setattr(training, "fit", fit)
    third = experiments.run("basic", **options, output=tmp_path / "second", train=True)
    assert (third.resumed, third.pretrained) == (0, [])
    results = json.loads((third.folder / "results.json").read_text())
    assert results["command"] == "maxsparse reproduce basic --preset smoke --train --methods residual"
    assert Store(tmp_path).read(recipe) == (tmp_path / "zoo" / "smoke-8x16.safetensors").read_bytes()
