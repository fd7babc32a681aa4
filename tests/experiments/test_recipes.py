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
    whole = Store(tmp_path / "whole", "cpu").network(RECIPE)
    validate, calls = training.run.Run.validate, []

    def stop_at_the_second(run):
        calls.append(run)
        if len(calls) == 2:
            raise KeyboardInterrupt
        validate(run)

    store = Store(tmp_path / "stopped", "cpu")
    monkeypatch.setattr(training.run.Run, "validate", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        store.network(RECIPE)
    assert store.path(RECIPE).exists()  # the best so far
    assert not store.has(RECIPE)
    monkeypatch.setattr(training.run.Run, "validate", validate)
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("began anew"))
    assert equal(store.network(RECIPE), whole)


def test_methods_need_a_store(tmp_path):
    with pytest.raises(RuntimeError, match="inside using_store"):
        current_store()
    store = Store(tmp_path)
    with using_store(store):
        assert current_store() is store


@pytest.mark.parametrize("preset", list(experiments.PRESETS))
def test_one_residual_network_serves_five_experiments(preset):
    found = set()
    for name in ("basic", "ablations", "distributions", "data-size", "runtime"):
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


@pytest.mark.long
@pytest.mark.parametrize("method", NETWORK_METHODS)
@pytest.mark.parametrize("d", [1, 3, 10])
def test_every_network_of_the_paper_preset_trains_200_000_signals(tmp_path, method, d):
    amplitudes = "unit" if method == "lstm" else "uniform"
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
