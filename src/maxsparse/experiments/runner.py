"""Run an experiment: the unfinished tasks, here or elsewhere, then the report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxsparse._core.registry import unknown
from maxsparse._core.validation import check_choice, check_integer
from maxsparse.experiments import registry
from maxsparse.experiments.experiment import Experiment, Verdict
from maxsparse.experiments.journal import Journal, fingerprint
from maxsparse.experiments.presets import PRESETS
from maxsparse.experiments.recipes import Recipe, Store
from maxsparse.experiments.report import write_report
from maxsparse.experiments.workers import Work, on_cluster, on_processes

__all__ = ["Interrupted", "Outcome", "run"]

NETWORKS = ".networks"  # folder of trained networks, shared by all experiments and presets


class Interrupted(Exception):
    """A run was interrupted by the user; finished tasks are on disk."""

    def __init__(self, done: int, total: int, *, fresh: bool = False) -> None:
        command = "the same command without --fresh" if fresh else "the same command"
        super().__init__(f"interrupted after {done} of {total} tasks; {command} resumes the remaining tasks")
        self.done, self.total = done, total


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes
    ----------
    folder : Path
        Holds results.json, the figures, tables.md and index.html.
    verdicts : list of Verdict
    tasks : int
        Number of tasks of the experiment.
    resumed : int
        How many of them come from an earlier run.
    pretrained : list of str
        Names of the pretrained networks that were used.
    """

    folder: Path
    verdicts: list[Verdict]
    tasks: int
    resumed: int
    pretrained: list[str] = field(default_factory=list)


def run(
    name: str,
    *,
    preset: str = "laptop",
    output: str | os.PathLike[str] = "results",
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    device: str = "auto",
    fresh: bool = False,
    train: bool = False,
    changes: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Outcome:
    """Run one experiment and write its report to ``output/preset/name``.

    Parameters
    ----------
    name : str
        Name of the experiment, see :func:`maxsparse.experiments.names`.
    preset : {"smoke", "laptop", "day", "paper"}, default="laptop"
        Size of the run.
    output : str or path, default="results"
        Folder for all results.
    methods : sequence of str or None, default=None
        Methods to run; None for those of the experiment and all plug-ins. Earlier results of other methods stay in the
        report.
    seeds : sequence of int or None, default=None
        Seeds to run, a subset of the preset's; None for all. Earlier results of other seeds stay in the report.
    jobs : int, default=1
        Number of processes. Methods registered by a call, not by an entry point, are known to one process only.
    scheduler : str or None, default=None
        Address of a dask scheduler whose workers train and measure, instead of local processes.
    device : str, default="auto"
        Device for training and inference: ``"auto"`` uses CUDA if available, else the CPU.
    fresh : bool, default=False
        Repeat every task. Otherwise tasks of an earlier run with the same settings, finished or interrupted, are
        reused. Trained networks are always reused; they are in ``output/.networks``.
    train : bool, default=False
        Train all networks, including pretrained ones.
    changes : mapping or None, default=None
        Settings that replace those of the preset; a mapping is merged into the one it replaces, for example
        ``{"network": {"mean": 0.5}}`` for ``"stereo"``. Give another `output` to keep the results of the preset.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    outcome : Outcome

    Raises
    ------
    Interrupted
        On Ctrl-C. The next call with the same arguments runs the remaining tasks.
    """
    experiment = registry.get(name)
    preset = check_choice(preset, "preset", tuple(PRESETS))
    jobs = check_integer(jobs, "jobs", low=1)
    settings = _changed(experiment.presets[preset], changes or {})
    folder = Path(output) / preset / name
    folder.mkdir(parents=True, exist_ok=True)
    usual = _usual_methods(experiment)
    chosen = _chosen_methods(experiment, methods)
    known = experiment.tasks(settings, list(dict.fromkeys([*usual, *chosen])))
    wanted = [task for task in experiment.tasks(settings, chosen) if task["seed"] in _chosen_seeds(settings, seeds)]
    store = Store(Path(output) / NETWORKS, device, use_zoo=not train)
    journal = Journal(folder, [(t, _key(experiment, settings, t, store)) for t in known], wanted if fresh else ())
    missing = [task for task in wanted if not journal.has(task)]
    finished = False
    try:
        needed = [experiment.recipes(settings, task) for task in missing]
        work = Work(name, settings, missing, needed, store, progress)
        for task, records, seconds in on_processes(work, jobs) if scheduler is None else on_cluster(work, scheduler):
            journal.add(task, records, seconds)
        shown = [task for task in known if journal.has(task)]
        command = f"maxsparse reproduce {name} --preset {preset}" + (" --train" if train else "") + _options(changes)
        if shown != experiment.tasks(settings, usual):
            command += f" --methods {','.join(methods)}" if methods else ""
            command += f" --seeds {','.join(map(str, seeds))}" if seeds else ""
        done = [(task, journal.key(task), *journal.of(task)) for task in shown]
        zoo = _from_zoo(experiment, settings, shown, store)
        verdicts = write_report(experiment, preset, settings, done, folder, command, zoo)
        finished = True
    except KeyboardInterrupt as stop:
        raise Interrupted(sum(map(journal.has, wanted)), len(wanted), fresh=fresh) from stop
    finally:
        journal.close(finished)
    return Outcome(folder, verdicts, len(wanted), len(wanted) - len(missing), zoo)


def _changed(settings: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for name in changes:
        if name not in settings:
            raise ValueError(unknown("setting", name, settings))
    merged = {n: {**settings[n], **value} if isinstance(value, Mapping) else value for n, value in changes.items()}
    return {**settings, **merged}


def _options(changes: Mapping[str, Any] | None) -> str:
    """Return the options of the command line that make these changes."""
    given = (changes or {}).get("network", {})
    return "".join(
        f" --{name} {':'.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in given.items()
    )


def _from_zoo(
    experiment: Experiment, settings: dict[str, Any], tasks: Sequence[dict[str, Any]], store: Store
) -> list[str]:
    recipes = {recipe.key: recipe for task in tasks for recipe in experiment.recipes(settings, task)}
    return [name for recipe in recipes.values() if (name := store.pretrained(recipe))]


def _key(experiment: Experiment, settings: dict[str, Any], task: dict[str, Any], store: Store) -> str:
    """Return the fingerprint of a task: of the settings, and of the networks and weights that its method uses."""
    recipes: list[Recipe] = experiment.recipes(settings, task)
    method = registry.methods().get(task.get("method", ""))
    networks = [store.fingerprint(recipe) for recipe in recipes]
    depends = networks + ([method.depends()] if method and method.depends() else [])
    return fingerprint(experiment.name, settings, [*depends, *experiment.depends(task)])


def _usual_methods(experiment: Experiment) -> list[str]:
    if not experiment.methods:
        return []
    return experiment.known_methods() or list(dict.fromkeys([*experiment.methods, *registry.plug_ins()]))


def _chosen_seeds(settings: dict[str, Any], seeds: Sequence[int] | None) -> list[int]:
    known: list[int] = settings["seeds"]
    for seed in seeds or ():
        if seed not in known:
            raise ValueError(f"seed {seed} is not one of the preset's: {', '.join(map(str, known))}")
    return known if seeds is None else list(seeds)


def _chosen_methods(experiment: Experiment, methods: Sequence[str] | None) -> list[str]:
    if not experiment.methods:
        if methods:
            raise ValueError(f"the experiment {experiment.name!r} compares no methods; omit --methods")
        return []
    if methods is None:
        return _usual_methods(experiment)
    for method in methods:
        if method not in (known := registry.methods_of(experiment)):
            raise ValueError(unknown("method", method, known))
    return list(dict.fromkeys(methods))
