"""One registry: what is read from the source is what importing gives, and outsiders are known everywhere."""

import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pytest

import maxsparse as ms
from maxsparse._core.registry import ABILITIES, EXPERIMENTS, NETWORKS, SOLVERS, STEREO, Registry

ROOT = Path(__file__).parents[1]
PACKAGE = Path(ms.__file__).parent
ALL = [SOLVERS, NETWORKS, EXPERIMENTS, STEREO]


def run(code, *folders, check=True, **environment):
    """Run Python code in a fresh process that finds these folders first; return what it printed."""
    path = os.pathsep.join([*map(str, folders), str(PACKAGE.parent)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else done.stderr


@pytest.mark.parametrize("registry", ALL, ids=lambda registry: registry.variable)
def test_what_the_source_says_is_what_importing_gives(registry):
    """Every decorated definition is found without importing it, with the same details."""
    imported, calls = Registry(registry.variable, registry.kind, (), None), []

    def note(name, **details):
        return lambda thing: calls.append((name, details, thing)) or thing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "register", note)
        for package in registry.packages:
            (folder,) = importlib.import_module(package).__path__
            for source in sorted(Path(folder).glob("*.py")):
                if f"@{registry.variable}.register(" in source.read_text(encoding="utf-8"):
                    name = importlib.import_module(f"{package}.{source.stem}").__name__
                    spec = importlib.util.spec_from_file_location(name, source)  # a second copy: nothing else sees it
                    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    for name, details, thing in calls:
        imported.register(name, thing, **details)
    own = {entry.name: entry for entry in registry.entries() if not entry.outside}
    assert own.keys() == set(imported) != set()
    for name, entry in own.items():
        other = imported.entry(name)
        for key in ("summary", "label", "needs", "good_for", "order", "module", "attribute"):
            assert getattr(entry, key) == getattr(other, key)
        assert entry.summary


def test_listing_imports_nothing_heavy():
    heavy = ("numpy", "numba", "torch", "typer", "scipy")
    code = f"""
        import sys
        from maxsparse._core.registry import SOLVERS, NETWORKS, EXPERIMENTS, STEREO
        for registry in (SOLVERS, NETWORKS, EXPERIMENTS, STEREO):
            assert len(list(registry)) > 3 and repr(registry)
            try:
                registry.check("nonsense")
            except ValueError:
                pass
        print([name for name in {heavy!r} if name in sys.modules])
    """
    assert run(code).strip() == "[]"


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_abilities_are_the_solvers_parameters_and_needs_are_needed(name):
    entry, parameters = SOLVERS.entry(name), inspect.signature(SOLVERS[name]).parameters
    for ability in ("positive", "groups", "callback"):
        assert (ability in entry.can) == (ability in parameters)
    assert ("sparsity" in entry.needs) == (parameters["sparsity"].default is inspect.Parameter.empty)
    dictionary = ms.dictionaries.clustered(4, 6, clusters=3, epsilon=0.5, rng=0)
    Phi = dictionary if "clusters" in entry.needs else dictionary.matrix
    if "noise" not in entry.can:
        with pytest.raises(ValueError, match="noise"):
            SOLVERS[name](Phi, dictionary.matrix.T[:1], noise=0.1)


def test_unknown_names_are_guessed():
    for wrong, meant in (("OMP", "omp"), ("reweighted-l1", "reweighted_l1"), ("subspacepursuit", "subspace_pursuit")):
        with pytest.raises(ValueError, match=f"there is no method '{wrong}'; did you mean '{meant}'"):
            ms.solve(np.eye(2), np.eye(2), method=wrong)
    with pytest.raises(ValueError, match=r"there is no method 'magic'\. Available: omp, subspace_pursuit, "):
        ms.solve(np.eye(2), np.eye(2), method="magic")
    with pytest.raises(
        ValueError, match=r"has no option 'max_itr'; did you mean 'max_iter'\? Its options are: update, "
    ):
        ms.solve(np.eye(2), np.eye(2), method="sbl", max_itr=3)


def test_what_a_method_cannot_do_names_one_that_can(registries):
    with pytest.raises(ValueError, match=r"method 'exact' cannot report its progress .*; use 'omp', .*'sbl'.*"):
        ms.solve(np.eye(2), np.eye(2), method="exact", callback=print)
    with pytest.raises(ValueError, match=r"method 'reweighted_l1' cannot take noise .*; use 'omp', .* or 'exact'$"):
        ms.solve(np.eye(2), np.eye(2), method="reweighted_l1", noise=0.1)

    @ms.solvers.register("able", can=["positive", "groups", "complex", "snapshots"])
    def able(Phi, Y, *, sparsity=None, precondition=False, **options):
        return "able"

    for option in ({"positive": True}, {"groups": np.zeros(2, dtype=int)}):
        (ability,) = option
        with pytest.raises(ValueError, match=rf"method 'ista' cannot .* \({ability}=\); use .*'able'"):
            ms.solve(np.eye(2), np.eye(2), method="ista", **option)
        assert ms.solve(np.eye(2), np.eye(2), method="able", **option) == "able"
    with pytest.raises(ValueError, match=r"method 'ista' cannot take complex data; use .*'able'"):
        ms.solve(np.eye(2) * 1j, np.eye(2), method="ista")
    with pytest.raises(ValueError, match=r"method 'ista' cannot take several snapshots .*; use .*'able'"):
        ms.solve(np.eye(2), np.zeros((3, 4, 2)), method="ista")
    assert ms.solve(np.eye(2), np.eye(2), method="able", positive=False) == "able"


def test_a_name_is_taken_once_and_a_definition_may_be_run_again():
    registry = Registry("MINE", "thing", (), None)

    def define(answer):
        def mine():
            return answer

        return mine

    first, again = define(1), define(2)
    assert registry.register("mine", first) is first
    registry.register("mine", again)  # the same definition, as a cell of a notebook that is run again
    assert registry["mine"]() == 2
    with pytest.raises(ValueError, match="a thing named 'mine' already exists"):
        registry.register("mine", run)
    with pytest.raises(ValueError, match="there is no flag 'noisy'; did you mean 'noise'"):
        registry.register("other", first, can=["noisy"])
    with pytest.raises(ValueError, match="must be a word, got ''"):
        registry.register("", first)
    assert list(registry) == ["mine"]
    with registry.restored():
        registry.register("later", first, order=0)
        registry.remove("mine")
        assert list(registry) == ["later"]
    assert list(registry) == ["mine"]
    assert "mine" in registry
    assert registry.get("nothing") is None
    assert set(ABILITIES) >= {"noise", "positive", "groups", "complex", "snapshots"}


def test_adding_a_solver_touches_its_own_file(tmp_path):
    """A copy of the package with one more file knows the solver everywhere."""
    copy = tmp_path / "maxsparse"
    for path in PACKAGE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            (copy / path.relative_to(PACKAGE)).parent.mkdir(parents=True, exist_ok=True)
            (copy / path.relative_to(PACKAGE)).symlink_to(path)
    (copy / "solvers" / "pseudo.py").write_text(
        textwrap.dedent(
            '''
            """The pseudoinverse."""
            import numpy as np

            from maxsparse._core.registry import SOLVERS
            from maxsparse.result import Result


            @SOLVERS.register("pseudo", summary="the least ℓ2 norm", label="pseudoinverse", can=[], order=60)
            def pseudo(Phi, Y, *, sparsity=None, precondition=False):
                """Return the solution of least ℓ2 norm."""
                X, N = Y @ np.linalg.pinv(Phi).T, len(Y)
                zeros = np.zeros(N)
                return Result(X, zeros, zeros.astype(int), zeros == 0, zeros != 0, "pseudo")
            '''
        )
    )
    code = """
        import numpy as np
        import maxsparse as ms
        Phi, Y = np.array([[1.0, 1.0]]), np.array([[2.0]])
        assert ms.solve(Phi, Y, method="pseudo").coef.round(9).tolist() == [[1.0, 1.0]]
        assert ms.solvers.pseudo is ms.solvers.METHODS["pseudo"]
        assert "pseudo" in ms.solvers.__all__
        from maxsparse import experiments
        known = experiments.methods()
        assert known["pseudo"].label == "pseudoinverse" and known["pseudo-whitened"].label == "pseudoinverse, whitened"
        assert "pseudo" not in experiments.registry.plug_ins()
        try:
            ms.solve(Phi, Y, method="pseudo", noise=1.0)
        except ValueError as error:
            print(error)
        from typer.testing import CliRunner
        from maxsparse.cli import app
        print("pseudo" in CliRunner().invoke(app, ["solve", "--help"]).output)
        print(ms.__file__)
    """
    refused, shown, where = run(code, tmp_path).strip().splitlines()
    assert refused.startswith("method 'pseudo' cannot take noise into account (noise=); use 'omp'")
    assert shown == "True"
    assert where.startswith(str(tmp_path))


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Write the package of CONTRIBUTING.md, entry points included, as an installation would leave it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("site")
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").touch()
    files = re.findall(r"```python\n# (my_package/\w+\.py)\n(.*?)```", text, flags=re.DOTALL)
    assert len(files) == 4
    for name, code in files:
        (folder / name).write_text(code)
    (toml,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    groups = tomllib.loads(toml)["project"]["entry-points"]
    assert groups.keys() == {"maxsparse.solvers", "maxsparse.networks", "maxsparse.experiments", "maxsparse.stereo"}
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in items.items()) for group, items in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


def test_the_page_on_adding_your_own_works(outside, tmp_path):
    """Do what the page says: solver, network, experiment, method and stereo method from outside the package."""
    code = """
        import json, sys
        import numpy as np
        import maxsparse as ms
        from maxsparse._core.registry import NETWORKS, SOLVERS
        assert "my_package" not in sys.modules and "matched_filter" in SOLVERS and "one_layer" in NETWORKS
        assert "my_package" not in sys.modules  # listed, not imported
        out = {"announced": SOLVERS.entry("matched_filter").summary}

        Phi = ms.dictionaries.gaussian(16, 24, rng=0)
        X, Y = ms.signals.sample(Phi, 50, sparsity=1, rng=1)
        result = ms.solve(Phi, Y, method="matched_filter", sparsity=1)
        out["solver"] = ms.metrics.exact_recovery(X, result.coef)
        entry = SOLVERS.entry("matched_filter")
        out["entry"] = [entry.summary, entry.label, sorted(entry.needs), sorted(entry.can)]

        options = {"samples": 200_000, "sparsity": 1}
        model = ms.SparseRecoverer(Phi, network="one_layer", n_threads=1).fit(**options)
        model.save(sys.argv[1] + "/model.safetensors")
        again = ms.load(sys.argv[1] + "/model.safetensors")
        out["network"] = ms.metrics.strict_accuracy(X, again.trained_.network.scores(Y))

        lights = ms.stereo.hemisphere_lights(6, rng=0)
        scene = ms.stereo.make_scene(np.tile(np.arange(1.0, 7.0)[:, None, None], (1, 4, 4)), lights)
        normals = ms.stereo.estimate_normals(scene, "brightest").normals
        out["stereo"] = bool(np.allclose(normals, lights[5]))
        print(json.dumps(out))
    """
    code = f"import sys; sys.argv = ['', {str(tmp_path)!r}]\n" + textwrap.dedent(code)
    out = json.loads(run(code, outside).strip().splitlines()[-1])
    assert out["announced"] == "plug-in of my-package 1.0"
    assert out["solver"] == 1.0
    summary = "Keep the atoms that resemble the signal most, and refit them"
    assert out["entry"] == [summary, "matched filter", ["sparsity"], ["noise"]]
    assert out["network"] > 0.5
    assert out["stereo"] is True


def test_experiments_know_solvers_methods_and_experiments_from_outside(outside, tmp_path):
    """`maxsparse reproduce` runs the page's experiment on the page's methods, in two processes."""
    command = [sys.executable, "-m", "maxsparse", "reproduce"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(outside), str(PACKAGE.parent)])}

    def reproduce(*arguments):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "spread" in reproduce("--list")
    reproduce("spread", "--preset", "smoke", "--jobs", "2")
    results = json.loads((tmp_path / "results" / "smoke" / "spread" / "results.json").read_text())
    assert {task["task"]["method"] for task in results["tasks"]} == {"omp", "matched_filter", "my-omp"}
    assert results["title"] == "Spread amplitudes"
    reproduce("rank-one", "--preset", "smoke", "--methods", "matched_filter,matched_filter-whitened")
    results = json.loads((tmp_path / "results" / "smoke" / "rank-one" / "results.json").read_text())
    assert {"matched filter", "matched filter, whitened"} <= {row[0] for row in results["tables"][0]["rows"]}
    reproduce("basic", "--preset", "smoke", "--methods", "one_layer")
    results = json.loads((tmp_path / "results" / "smoke" / "basic" / "results.json").read_text())
    assert {task["task"]["method"] for task in results["tasks"]} == {"one_layer"}


def test_help_texts_name_plug_ins(outside):
    code = """
        import sys
        from typer.testing import CliRunner
        from maxsparse.cli import app
        for command, name in (("solve", "matched_filter"), ("fit", "one_layer"), ("stereo estimate", "brightest")):
            print(name in CliRunner().invoke(app, [*command.split(), "--help"]).output)
        print("my_package" in sys.modules)
    """
    assert run(code, outside).split() == ["True", "True", "True", "False"]


def test_a_broken_plug_in_is_named_when_it_is_used_and_harms_nothing_else(tmp_path):
    info = tmp_path / "broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[maxsparse.solvers]\nbroken = nowhere:thing\nomp = nowhere:omp\n")
    code = """
        import warnings
        import numpy as np
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import maxsparse as ms
            print(ms.solvers.omp.__module__)
        print(*[w.message for w in caught])
        for _ in range(2):
            try:
                ms.solve(np.eye(2), np.eye(2), method="broken")
            except ValueError as error:
                print(error)
    """
    module, warning, *errors = run(code, tmp_path).strip().splitlines()
    assert module == "maxsparse.solvers.omp"
    assert warning.startswith("the plug-in 'omp' (nowhere:omp) is ignored: a method of that name already exists")
    assert errors == ["the plug-in 'broken' (nowhere:thing) cannot be used: No module named 'nowhere'"] * 2
