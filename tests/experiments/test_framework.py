"""Running, stopping, resuming and reporting, on an experiment small enough to know every number of."""

import json
import re
import statistics

import pytest

from maxsparse import experiments
from maxsparse.experiments import Claim, Data, Experiment, Method, Picture, Record, Table, basic, registry
from maxsparse.experiments.experiment import all_below


class Toy(Experiment):
    name = "toy"
    title = "Squares & <powers>"
    paper = "Section 0"
    about = "x² plus a little of the seed."
    claims = (Claim("grows", "Squares grow.", "Section 0"), Claim("hidden", "Nobody looked.", "Section 0"))
    presets = {  # noqa: RUF012
        "smoke": {"points": [1, 2], "seeds": [0]},
        "laptop": {"points": [1, 2, 3], "seeds": [0, 1, 2]},
        "paper": {"points": [1, 2, 3], "seeds": [0, 1, 2]},
    }

    def __init__(self):
        self.calls, self.stop_at = [], None

    def tasks(self, settings, methods):
        return [{"x": x, "seed": seed} for x in settings["points"] for seed in settings["seeds"]]

    def measure(self, settings, task):
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append(task)
        value = task["x"] ** 2 + 0.125 * task["seed"]
        missing = float("nan") if task["x"] == 2 else 1.0
        return [Record(task, {"square": value, "missing": missing})]

    def judge(self, settings, data):
        ends = [data.mean("square", x=x) for x in (min(settings["points"]), max(settings["points"]))]
        return [
            self.verdict("grows", f"From {ends[0]} to {ends[1]}.", ends[0] < ends[1]),
            self.verdict("hidden", "", None),
        ]

    def pictures(self, settings, data):
        def draw(figure):
            series = data.series("x", "square")
            figure.subplots().plot(series.x, series.mean)

        return [Picture("curve", "The <curve>.", draw, (3, 2))]

    def tables(self, settings, data):
        return [Table("all", "All | squares", ["x", "x²"], [["1|2", str(data.mean("square", x=1))]])]


@pytest.fixture
def toy(monkeypatch, registries):
    monkeypatch.setattr(registry, "_methods", {})
    experiment = Toy()
    experiments.register(experiment)
    return experiment


def read(folder):
    return json.loads((folder / "results.json").read_text())


def test_results_hold_figures_spreads_seeds_versions_machine_preset_and_command(toy, tmp_path):
    outcome = experiments.run("toy", output=tmp_path)
    assert outcome.folder == tmp_path / "laptop" / "toy"
    assert (outcome.tasks, outcome.resumed) == (9, 0)
    results = read(outcome.folder)
    assert results["preset"] == "laptop"
    assert results["command"] == "maxsparse reproduce toy --preset laptop"
    assert results["seeds"] == [0, 1, 2]
    assert {"python", "numpy", "maxsparse"} <= results["versions"].keys()
    assert {"system", "cores"} <= results["machine"].keys()
    assert results["figures"] == [{"name": "curve", "caption": "The <curve>."}]
    row = next(r for r in results["summary"] if r["where"] == {"x": 3})
    values = [9 + 0.125 * seed for seed in (0, 1, 2)]
    assert row["values"]["square"] == {"mean": 9.125, "std": statistics.stdev(values), "n": 3}
    assert next(r for r in results["summary"] if r["where"] == {"x": 2})["values"]["missing"]["mean"] is None
    assert len(results["tasks"]) == 9
    assert sorted(p.name for p in outcome.folder.iterdir()) == [
        "curve.png",
        "curve.svg",
        "index.html",
        "results.json",
        "tables.md",
    ]


def test_claims_are_judged_and_smoke_judges_nothing(toy, tmp_path):
    verdicts = experiments.run("toy", output=tmp_path).verdicts
    assert [v.verdict for v in verdicts] == ["holds", "untested"]
    assert {v.verdict for v in experiments.run("toy", preset="smoke", output=tmp_path).verdicts} == {"untested"}


@pytest.mark.parametrize("stop_at", [0, 1, 5, 8])
def test_a_stopped_run_resumes_and_ends_like_one_that_was_not(toy, tmp_path, stop_at):
    whole = read(experiments.run("toy", output=tmp_path / "whole").folder)
    toy.calls.clear()
    toy.stop_at = stop_at
    with pytest.raises(experiments.Interrupted, match=f"after {stop_at} of 9 tasks; the same command") as caught:
        experiments.run("toy", output=tmp_path / "stopped")
    assert (caught.value.done, caught.value.total) == (stop_at, 9)
    assert not (tmp_path / "stopped" / "laptop" / "toy" / "results.json").exists()
    toy.stop_at = None
    outcome = experiments.run("toy", output=tmp_path / "stopped")
    assert outcome.resumed == stop_at
    assert len(toy.calls) == 9  # none twice
    again = read(outcome.folder)
    for name in ("summary", "claims", "figures", "tables", "settings", "seeds"):
        assert again[name] == whole[name]
    assert (outcome.folder / "curve.svg").read_bytes() == (
        tmp_path / "whole" / "laptop" / "toy" / "curve.svg"
    ).read_bytes()


def test_a_line_that_was_half_written_is_done_again(toy, tmp_path):
    toy.stop_at = 4
    with pytest.raises(experiments.Interrupted):
        experiments.run("toy", output=tmp_path)
    journal = tmp_path / "laptop" / "toy" / ".journal.jsonl"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:3]) + "\n" + lines[3][:20])  # as a kill -9 leaves it
    toy.calls.clear()
    toy.stop_at = None
    outcome = experiments.run("toy", output=tmp_path)
    assert outcome.resumed == 3
    assert len(toy.calls) == 6
    assert not journal.exists()


def test_finished_runs_are_reused_unless_told_otherwise(toy, tmp_path):
    experiments.run("toy", output=tmp_path)
    toy.calls.clear()
    assert experiments.run("toy", output=tmp_path).resumed == 9
    assert toy.calls == []
    assert experiments.run("toy", output=tmp_path, fresh=True).resumed == 0
    assert len(toy.calls) == 9


def test_other_settings_are_another_run(toy, tmp_path, monkeypatch):
    experiments.run("toy", output=tmp_path)
    toy.calls.clear()
    changed = {**Toy.presets, "laptop": {"points": [1, 2, 4], "seeds": [0, 1, 2]}}
    monkeypatch.setattr(Toy, "presets", changed)
    assert experiments.run("toy", output=tmp_path).resumed == 0
    assert len(toy.calls) == 9


@pytest.mark.parametrize("content", ["", "{", "[]", '{"tasks": 3}', '{"fingerprint": "x", "tasks": [{}]}'])
def test_foreign_results_are_replaced(toy, tmp_path, content):
    folder = tmp_path / "laptop" / "toy"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(content)
    assert experiments.run("toy", output=tmp_path).resumed == 0
    assert len(read(folder)["tasks"]) == 9


def test_more_seeds_do_not_undo_the_others(toy, tmp_path, monkeypatch):
    experiments.run("toy", output=tmp_path)
    toy.calls.clear()
    monkeypatch.setattr(Toy, "presets", {**Toy.presets, "laptop": {"points": [1, 2, 3], "seeds": [0, 1, 2, 3]}})
    assert experiments.run("toy", output=tmp_path).resumed == 9
    assert {call["seed"] for call in toy.calls} == {3}


def test_seeds_can_be_run_one_after_the_other(toy, tmp_path):
    outcome = experiments.run("toy", output=tmp_path, seeds=[1])
    assert (outcome.tasks, outcome.resumed) == (3, 0)
    assert read(outcome.folder)["command"] == "maxsparse reproduce toy --preset laptop --seeds 1"
    results = read(experiments.run("toy", output=tmp_path, seeds=[0, 2]).folder)
    assert results["seeds"] == [0, 1, 2]
    assert results["command"] == "maxsparse reproduce toy --preset laptop"
    assert len(toy.calls) == 9
    with pytest.raises(ValueError, match="seed 7 is not one of the preset's: 0, 1, 2"):
        experiments.run("toy", output=tmp_path, seeds=[7])


class Comparison(Toy):
    name = "comparison"
    methods = ("first", "second")

    def tasks(self, settings, methods):
        return [{"method": method, "seed": seed} for method in methods for seed in settings["seeds"]]

    def measure(self, settings, task):
        self.calls.append(task["method"])
        return [Record(task, {"square": 1.0})]


@pytest.fixture
def comparison(toy):
    weights = ["old"]
    experiments.register(Method("first", "First", lambda problem, Y: Y))
    experiments.register(Method("second", "Second", lambda problem, Y: Y, depends=lambda: weights[0]))
    experiment = Comparison()
    experiments.register(experiment)
    return experiment, weights


def test_new_weights_undo_only_what_uses_them(comparison, tmp_path):
    experiment, weights = comparison
    experiments.run("comparison", output=tmp_path)
    assert experiment.calls == ["first"] * 3 + ["second"] * 3
    experiment.calls.clear()
    weights[0] = "new"
    assert experiments.run("comparison", output=tmp_path).resumed == 3
    assert experiment.calls == ["second"] * 3


def test_methods_that_are_not_run_again_stay_in_the_report(comparison, tmp_path):
    experiment, _ = comparison
    results = read(experiments.run("comparison", output=tmp_path, methods=["first"]).folder)
    assert results["command"].endswith("--methods first")
    results = read(experiments.run("comparison", output=tmp_path, methods=["second"]).folder)
    assert {task["task"]["method"] for task in results["tasks"]} == {"first", "second"}
    assert results["command"] == "maxsparse reproduce comparison --preset laptop"
    experiment.calls.clear()
    results = read(experiments.run("comparison", output=tmp_path, methods=["second"], fresh=True).folder)
    assert experiment.calls == ["second"] * 3
    assert len(results["tasks"]) == 6


def test_the_page_needs_no_other_file(toy, tmp_path):
    folder = experiments.run("toy", output=tmp_path).folder
    for page in (folder / "index.html", folder.parent / "index.html"):
        text = page.read_text()
        assert "Squares &amp; &lt;powers&gt;" in text
        assert "The &lt;curve&gt;." in text
        assert '<td class="holds">holds</td>' in text
        assert '<td class="untested">untested</td>' in text
        assert "width=device-width" in text
        assert re.findall(r'(?:src|href)="(?!data:|#)', text) == []
        assert "http" not in text
        assert text.count("data:image/svg+xml;base64,") == 1


def test_tables_are_markdown(toy, tmp_path):
    lines = (experiments.run("toy", output=tmp_path).folder / "tables.md").read_text().splitlines()
    assert "| what the paper claims | where | what was measured | verdict |" in lines
    assert "| 1\\|2 | 1.125 |" in lines


def test_names_are_checked(toy, tmp_path):
    with pytest.raises(ValueError, match="there is no experiment 'rank-on'; did you mean 'rank-one'"):
        experiments.run("rank-on")
    with pytest.raises(ValueError, match="preset must be one of 'smoke', 'laptop', 'day', 'paper', got 'huge'"):
        experiments.run("toy", preset="huge", output=tmp_path)
    with pytest.raises(ValueError, match="'toy' compares no methods"):
        experiments.run("toy", methods=["iht"], output=tmp_path)
    with pytest.raises(ValueError, match=r"there is no method 'nonsense'\. Available: iht"):
        experiments.run("rank-one", preset="smoke", methods=["nonsense"], output=tmp_path)
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        experiments.run("toy", jobs=0, output=tmp_path)


def test_registering(toy):
    mine = Method("mine", "Mine", lambda problem, Y: Y)
    assert experiments.register(mine) is mine
    assert experiments.methods()["mine"] is mine
    assert experiments.register(mine) is mine  # as an entry point of a module that has registered it itself
    for thing in (Method("mine", "Other", lambda problem, Y: Y), Toy(), Method("iht", "", lambda problem, Y: Y)):
        with pytest.raises(ValueError, match="already exists; choose another"):
            experiments.register(thing)
    with pytest.raises(ValueError, match="needs an Experiment or a Method, got 3"):
        experiments.register(3)

    @experiments.register
    class Other(Toy):
        name = "other"

    assert experiments.names()[-2:] == ["other", "toy"]
    assert isinstance(experiments.get("other"), Other)


def test_a_registered_method_joins_every_experiment_that_compares(toy, tmp_path):
    def mine(problem, Y):
        return Y @ problem.Phi

    experiments.register(Method("mine", "Mine", mine))
    experiments.register(Method("never", "Never", mine, applies=lambda problem: False))
    results = read(experiments.run("rank-one", preset="smoke", output=tmp_path).folder)
    data = Data(Record(r["where"], r["values"]) for t in results["tasks"] for r in t["records"])
    assert "mine" in data.unique("method")
    assert "never" not in data.unique("method")
    assert any(row[0] == "Mine" for row in results["tables"][0]["rows"])


def test_series_means_and_spreads():
    data = Data(Record({"x": x, "seed": s}, {"y": x + s}) for x in (2, 1) for s in (0, 1, 2))
    series = data.series("x", "y")
    assert series.x.tolist() == [1, 2]
    assert series.mean.tolist() == [2, 3]
    assert series.spread.tolist() == [1, 1]
    assert data.select(x=2, seed=1).records[0].values == {"y": 3}
    assert data.series("x", "z").x.tolist() == []


def test_records_without_values_are_not_summarised():
    data = Data([Record({"x": 1, "seed": 0}, {"y": 2.0}), Record({"x": 1, "seed": 0, "map": "…"}, {})])
    assert [row["where"] for row in data.summary()] == [{"x": 1}]


def test_what_was_not_measured_is_untested():
    assert all_below((1.0, 2.0), (0.0, 0.5)) is True
    assert all_below((1.0, 2.0), (0.5, 0.5)) is False
    assert all_below((1.0, 2.0), (float("nan"), 0.5)) is None


def test_stopping_a_fresh_run_says_how_to_resume(toy, tmp_path):
    toy.stop_at = 2
    with pytest.raises(experiments.Interrupted, match="the same command without --fresh resumes the remaining tasks"):
        experiments.run("toy", output=tmp_path, fresh=True)


def test_a_broken_plug_in_is_named_at_every_call(monkeypatch, registries):
    class Entry:
        def __init__(self, name, thing):
            self.name, self.value, self.thing = name, f"package:{name}", thing

        def load(self):
            return self.thing

    entries = [Entry("good", Method("good", "Good", lambda problem, Y: Y)), Entry("bad", 3)]
    monkeypatch.setattr(registry, "_methods", {})
    monkeypatch.setattr(registry, "_entry_points_loaded", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"the plug-in 'bad' .* cannot be used"):
            experiments.names()
    del entries[1]
    assert "good" in experiments.methods()


def curve(method, accuracies):
    """Return records of one method: the same accuracy, strict and loose, from d = 2 on."""
    return [
        Record({"method": method, "d": d, "seed": 0}, {"strict": value, "loose": value})
        for d, value in enumerate(accuracies, start=2)
    ]


def verdicts_of(name, curves):
    """Judge curves of an experiment, by method; return the verdicts by claim."""
    data = Data(record for method, accuracies in curves.items() for record in curve(method, accuracies))
    settings = {"N": 500, "sparsities": [2, 3, 4]}
    return {v.claim.key: v.verdict for v in experiments.get(name).judge(settings, data)}


@pytest.mark.parametrize(
    ("own", "other", "verdict"),
    [
        ([0.9, 0.5, 0.2], [0.5, 0.2, 0.1], "holds"),
        ([0.9, 0.5, 0.1], [0.5, 0.2, 0.2], "does not hold"),  # behind at the last
        ([0.9, 0.5, 0.2], [0.9, 0.2, 0.2], "does not hold"),  # ahead at one of three only
        ([1.0, 0.5, 0.001], [0.996, 0.2, 0.0], "holds"),  # ahead where not both recover all or nothing
        ([1.0, 0.0, 0.0], [1.0, 0.0, 0.0], "untested"),  # there is no such place
    ],
)
def test_uniformly_higher_is_more_than_level(own, other, verdict):
    curves = {"residual-raw": own, **dict.fromkeys(("ista", "iht"), other)}
    found = verdicts_of("basic", curves)
    assert found["optimisers"] == verdict
    assert {found[key] for key in ("learners", "whitened", "exact")} == {"untested"}


def test_a_claim_is_judged_by_the_methods_it_names_and_by_no_other():
    claims = {key: {name for pair in pairs for name in pair} for key, pairs in basic.DUELS.items()}
    claims["modest"] = {"ista", "iht"}
    methods = set().union(*claims.values())
    curves = {method: [0.9, 0.5, 0.2] if "residual" in method else [0.5, 0.2, 0.1] for method in methods}
    curves["iht"] = [0.4, 0.1, 0.05]
    assert set(verdicts_of("basic", curves).values()) == {"holds"}
    for method in methods:
        others = {name: values for name, values in curves.items() if name != method}
        untested = {key for key, verdict in verdicts_of("basic", others).items() if verdict == "untested"}
        assert untested == {key for key, needed in claims.items() if method in needed}
        # A rival that is better undoes the claims that name it, and no other.
        better = verdicts_of("basic", {**curves, method: [1.0, 0.9, 0.8]})
        lost = {key for key, needed in claims.items() if method in needed and "residual" not in method}
        assert {key for key, verdict in better.items() if verdict == "does not hold"} == lost, method


def test_a_verdict_is_one_line_with_a_table_behind_it():
    data = Data(
        [*curve("residual-raw", [0.9, 0.5, 0.0]), *curve("ista", [0.5, 0.6, 0.0]), *curve("iht", [0.5, 0.1, 0.0])]
    )
    verdicts = {v.claim.key: v for v in experiments.get("basic").judge({"N": 500, "sparsities": [2, 3, 4]}, data)}
    found = verdicts["optimisers"]
    assert found.verdict == "does not hold"
    assert found.measured == (
        "Not higher than ISTA (2000 iterations) at d = 3 (strict); ISTA (2000 iterations) at d = 3 (loose)."
    )
    assert found.table.rows[0][1:] == ["strict", "0.467", "0.367", "2", "–", "3", "4"]
    assert found.table.rows[2][1:] == ["strict", "0.467", "0.200", "2–3", "–", "–", "4"]


@pytest.mark.parametrize(
    ("name", "measures", "where", "claims"),
    [
        (
            "noise",
            ("recall", "error", "exact", "confidence"),
            {"kind": "decaying", "decibels": 30},
            {"recall", "error"},
        ),
        ("scale", ("strict",), {"n": 8, "share": 0.2}, {"behind"}),
    ],
)
def test_one_rival_is_not_all_of_them(name, measures, where, claims):
    experiment = experiments.get(name)
    rivals = [method for method in experiment.methods if method not in ("recoverer", "omp", "residual", "learned-sbl")]
    for missing in (*rivals, None):
        data = Data(
            Record({"method": method, "seed": 0, **where}, dict.fromkeys(measures, 0.5))
            for method in experiment.methods
            if method != missing
        )
        untested = {v.claim.key for v in experiment.judge(experiment.presets["smoke"], data) if v.verdict == "untested"}
        compared = missing is not None and (name == "scale" or missing in ("sbl", "l1", "vamp"))
        assert untested & claims == (claims if compared else set())


@pytest.mark.parametrize(("confidence", "verdict"), [(0.62, "holds"), (0.7, "does not hold"), (0.5, "does not hold")])
def test_confidence_is_compared_with_the_share_that_is_right(confidence, verdict):
    experiment = experiments.get("noise")
    at = {"method": "recoverer", "seed": 0, "kind": "decaying", "decibels": 30}
    data = Data([Record(at, {"recall": 0.8, "error": 0.1, "exact": 0.6, "confidence": confidence})])
    found = {v.claim.key: v.verdict for v in experiment.judge(experiment.presets["smoke"], data)}
    assert found == {"recall": "untested", "error": "untested", "confidence": verdict}


def test_a_tie_outperforms_nothing():
    tie = verdicts_of("lstm", {"lstm": [0.9, 0.4], "sbl": [0.9, 0.4]})
    better = verdicts_of("lstm", {"lstm": [0.9, 0.4, 0.3], "sbl": [0.9, 0.2, 0.1]})
    untested = dict.fromkeys(("sbl-convex", "sbl-mackay", "residual"), "untested")
    assert tie == {"sbl": "does not hold", **untested}
    assert better == {"sbl": "holds", **untested}
