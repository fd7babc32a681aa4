"""Everything a trained network depends on, and the store of trained networks that experiments share."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsparse import __version__, dictionaries
from maxsparse._core.atomic import atomic_write

if TYPE_CHECKING:
    from maxsparse.networks import SignalNetwork
    from maxsparse.training import Settings

__all__ = ["NOTE", "Diverged", "Recipe", "Store", "current_store", "using_store"]


NOTE = "training diverged:"  # start of the note that replaces a network


@dataclass(frozen=True)
class Recipe:
    """Everything that a trained network depends on, as plain JSON.

    Attributes
    ----------
    network : str
        Name in ``maxsparse.networks.NETWORKS``.
    hyperparameters : dict
        Of the network.
    loss : str or None
        None for the default of the network.
    n, m, seed : int
        The dictionary is ``decaying(n, m, rng=seed)``; initial weights and signals use the same seed.
    amplitudes : str
    sparsity : (int, int)
        Range of the number of nonzeros.
    samples : int
        Signals to train on, repetitions included.
    set_size : int or None
        Number of different signals; None if every signal is new.
    preset : str
        Name in ``maxsparse.training.PRESETS``.
    changes : dict
        Differences from the preset.
    """

    network: str
    n: int
    m: int
    seed: int
    samples: int
    amplitudes: str = "uniform"
    sparsity: tuple[int, int] = (1, 10)
    set_size: int | None = None
    loss: str | None = None
    preset: str = "modern"
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Training settings: the preset for the network, with the changes."""
        from maxsparse.training import preset_for  # loads torch

        return preset_for(self.network, self.preset).but(**self.changes)

    def to_json(self) -> dict[str, Any]:
        """Return all fields, with the settings of preset and network written out, as plain JSON."""
        found: dict[str, Any] = json.loads(json.dumps({**asdict(self), "settings": self.settings.to_json()}))
        return found

    def describes(self, header: dict[str, Any]) -> bool:
        """Return whether the header of a model file says that the network was trained by this recipe."""
        from maxsparse.networks import find
        from maxsparse.training.fit import loss_for

        if header.get("network") != self.network:
            return False
        parameters = inspect.signature(find(self.network)).parameters.values()
        details = {p.name: p.default for p in parameters if p.default is not p.empty} | self.hyperparameters
        loss = loss_for(self.network, self.loss, chosen := dict(self.hyperparameters))
        task = {
            "sparsity": list(self.sparsity),
            "amplitudes": self.amplitudes,
            "noise": 0.0,
            "snr_db": None,
            "loss": loss,
            "set_size": self.set_size,
            "rng": self.seed,
        }
        about = header["about"]
        return (
            header["hyperparameters"] == {**details, **chosen, "n": self.n, "m": self.m}
            and {name: about["task"][name] for name in task} == task
            and about["settings"] == json.loads(json.dumps(self.settings.to_json()))
            and about["budget"] == {"minutes": None, "samples": self.samples}
        )

    @property
    def key(self) -> str:
        """Hash of all fields and of the version of this package."""
        text = json.dumps([__version__, self.to_json()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Diverged(Exception):
    """The training of a network diverged; the message gives the reason, and the file to remove to try again."""


class Store:
    """A folder of trained networks, one file per recipe; missing ones are trained, interrupted ones resumed.

    Parameters
    ----------
    folder : path
        Created on first use.
    device : str, default="auto"
        Device for training and inference.
    use_zoo : bool, default=True
        Use a pretrained network if a recipe describes one, instead of training it.
    """

    def __init__(self, folder: Path, device: str = "auto", *, use_zoo: bool = True) -> None:
        self.folder, self.device, self.use_zoo = Path(folder), device, use_zoo
        self._names: dict[str, str | None] = {}  # of the zoo, by key
        self._finished: set[str] = set()  # keys of networks known to be finished

    def path(self, recipe: Recipe) -> Path:
        """Return the file of a network."""
        return self.folder / f"{recipe.network}-{recipe.key}.safetensors"

    def pretrained(self, recipe: Recipe) -> str | None:
        """Return the name of the pretrained network that a recipe describes; None if there is none."""
        from maxsparse.networks.zoo import pretrained_headers

        if not self.use_zoo:
            return None
        if recipe.key not in self._names:
            found = (name for name, header in pretrained_headers().items() if recipe.describes(header))
            self._names[recipe.key] = next(found, None)
        return self._names[recipe.key]

    def fingerprint(self, recipe: Recipe) -> str:
        """Return a hash of the recipe, and of the weights of a pretrained network, for cached measurements."""
        from maxsparse.networks.zoo import pretrained_headers

        name = self.pretrained(recipe)
        return recipe.key if name is None else f"{recipe.key} {pretrained_headers()[name]['sha256']}"

    def has(self, recipe: Recipe) -> bool:
        """Return whether the training of a network has ended, successfully or not."""
        from maxsparse.networks import load

        path = self.path(recipe)
        if self.pretrained(recipe) or self._note(recipe).is_file():
            return True
        # While a network trains, its file holds the best weights so far.
        return path.is_file() and bool(load(path).about["report"]["finished"])

    def network(self, recipe: Recipe, *, progress: bool = False) -> SignalNetwork:
        """Return a trained network, from its file or by training it; raise :class:`Diverged` if that failed."""
        if name := self.pretrained(recipe):
            from maxsparse.networks.zoo import zoo_path

            return _open(zoo_path(name), self.device)
        if recipe.key not in self._finished:
            if not self.has(recipe):
                self._train(recipe, progress)
            self._finished.add(recipe.key)
        note = self._note(recipe)
        if note.is_file():
            raise Diverged(f"{note.read_text(encoding='utf-8').strip()} (remove {str(note)!r} to train it again)")
        return _open(self.path(recipe), self.device)

    def about(self, recipe: Recipe) -> dict[str, Any]:
        """Return what the file of a trained network says of its training; the network is trained if missing."""
        from maxsparse.networks import load

        self.network(recipe)
        return dict(load(self._file(recipe)).about)

    def read(self, recipe: Recipe) -> bytes:
        """Return the file of a finished network, or the note that its training diverged."""
        return self._file(recipe).read_bytes()

    def _file(self, recipe: Recipe) -> Path:
        """Return the file of a finished network, or of the note that its training diverged."""
        if name := self.pretrained(recipe):
            from maxsparse.networks.zoo import zoo_path

            return zoo_path(name)
        note = self._note(recipe)
        return note if note.is_file() else self.path(recipe)

    def write(self, recipe: Recipe, content: bytes) -> None:
        """Add a file that was trained elsewhere."""
        self.folder.mkdir(parents=True, exist_ok=True)
        note = content.startswith(NOTE.encode())
        with atomic_write(self._note(recipe) if note else self.path(recipe)) as stream:
            stream.write(content)

    def _note(self, recipe: Recipe) -> Path:
        """Return the file that records a diverged training, so that it is not repeated."""
        return self.path(recipe).with_suffix(".diverged.txt")

    def _train(self, recipe: Recipe, progress: bool) -> None:
        from maxsparse import training

        self.folder.mkdir(parents=True, exist_ok=True)
        output = self.path(recipe)
        options: dict[str, Any] = {"output": output, "device": self.device, "progress": progress}
        try:
            if training.checkpoint_path(output).exists():
                training.resume(**options)
            else:
                _fit(recipe, options)
        except training.DivergenceError as error:
            training.checkpoint_path(output).unlink(missing_ok=True)
            self.write(recipe, f"{NOTE} {recipe.network}: {error.reason} after {error.samples:,} signals\n".encode())


def _fit(recipe: Recipe, options: dict[str, Any]) -> None:
    from maxsparse import training

    training.fit(
        dictionaries.decaying(recipe.n, recipe.m, rng=recipe.seed),
        recipe.network,
        sparsity=recipe.sparsity,
        amplitudes=recipe.amplitudes,
        loss=recipe.loss,
        set_size=recipe.set_size,
        settings=recipe.settings,
        hyperparameters=recipe.hyperparameters,
        samples=recipe.samples,
        rng=recipe.seed,
        overwrite=True,  # what is left of a run whose checkpoint is gone
        **options,
    )


@lru_cache(maxsize=8)
def _open(path: Path, device: str) -> SignalNetwork:
    """Read a finished network; its file never changes, so it is kept in memory for the next task."""
    from maxsparse.networks import SignalNetwork, load
    from maxsparse.training.processes import pick_device

    network = load(path).network
    assert isinstance(network, SignalNetwork)
    return network.to(pick_device(device)).eval()


_store: ContextVar[Store] = ContextVar("store")


@contextmanager
def using_store(store: Store) -> Iterator[None]:
    """Make `store` the current store of networks."""
    token = _store.set(store)
    try:
        yield
    finally:
        _store.reset(token)


def current_store() -> Store:
    """Return the current store of networks."""
    try:
        return _store.get()
    except LookupError:
        raise RuntimeError("networks are trained by maxsparse.experiments.run(), or inside using_store()") from None
