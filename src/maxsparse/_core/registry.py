"""The registries of solvers, networks, experiments and photometric-stereo methods.

A decorator with literal arguments registers a definition: ``@SOLVERS.register("omp", summary="…", …)``. Names and
abilities are read from the source without importing it, so that help texts and error messages need neither numba nor
torch. A module is imported when one of its entries is first used. Other packages call ``register`` or declare entry
points.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
import re
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar, overload

__all__ = ["ABILITIES", "EXPERIMENTS", "NEEDS", "NETWORKS", "SOLVERS", "STEREO", "Entry", "Registry", "unknown"]

# Abilities of an entry, worded to complete "method … cannot".
ABILITIES = {
    "noise": "take noise into account (noise=)",
    "positive": "keep coefficients non-negative (positive=)",
    "groups": "use groups of atoms (groups=)",
    "callback": "report its progress (callback=)",
    "complex": "take complex data",
    "snapshots": "take several snapshots per signal, Y of shape (N, L, n)",
    "operators": "take an operator as Phi (scipy.sparse.linalg.LinearOperator)",
    "devices": "run on a device other than the CPU",
}
# What an entry must be given besides a dictionary and signals.
NEEDS = {"sparsity": "sparsity", "clusters": "a `ClusteredDictionary`", "training": "training for one Φ"}
T = TypeVar("T")
LAST = 1000  # order of entries that state none


@dataclass(frozen=True)
class Entry:
    """Description of a registered object, available without importing it.

    Attributes
    ----------
    name : str
    summary : str
        One line: what it does.
    label : str
        For figures and tables.
    needs : frozenset of str
        Keys of :data:`NEEDS`.
    can : frozenset of str or None
        Keys of :data:`ABILITIES`; None if unknown, as for a plug-in that is not loaded yet.
    good_for : str
        When to use it, for the decision table.
    order : int
        Position in lists; equal ones are sorted by name.
    module, attribute : str
        Where it is defined.
    outside : bool
        Whether it belongs to another package.
    plug_in : EntryPoint or None
        The entry point it came from.
    """

    name: str
    summary: str = ""
    label: str = ""
    needs: frozenset[str] = frozenset()
    can: frozenset[str] | None = None
    good_for: str = ""
    order: int = LAST
    module: str = ""
    attribute: str = ""
    outside: bool = True
    plug_in: EntryPoint | None = None


class Registry(Mapping[str, Any]):
    """Objects of one kind by name; ``registry[name]`` imports and returns one.

    Parameters
    ----------
    variable : str
        Name of the registry in the source, by which decorators are found.
    kind : str
        Word for an entry in messages.
    packages : sequence of str
        Packages to search for decorated definitions.
    group : str or None
        Group of entry points.
    """

    def __init__(self, variable: str, kind: str, packages: tuple[str, ...], group: str | None) -> None:
        self.variable, self.kind, self.packages, self.group = variable, kind, packages, group
        self._entries: dict[str, Entry] = {}
        self._things: dict[str, Any] = {}
        self._found = False
        self._lock = threading.RLock()

    # Mapping: names in order; listing them imports nothing.

    def __getitem__(self, name: str) -> Any:
        self._find()
        if name not in self._things:
            self._load(self._entries[name])
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter([entry.name for entry in self.entries()])

    def __len__(self) -> int:
        self._find()
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        self._find()
        return isinstance(name, str) and name in self._entries

    def __repr__(self) -> str:
        entries = self.entries()
        width = max((len(entry.name) for entry in entries), default=0)
        return "\n".join(f"{entry.name:{width}}  {entry.summary}".rstrip() for entry in entries)

    def entries(self) -> list[Entry]:
        """Return all entries in order."""
        self._find()
        return sorted(self._entries.values(), key=lambda entry: (entry.order, entry.name))

    def entry(self, name: Any) -> Entry:
        """Return the entry of that name; if there is none, the error suggests a similar name."""
        return self._entries[self.check(name)]

    def check(self, name: Any) -> str:
        """Return `name` if it is known."""
        if name not in self:
            raise ValueError(unknown(self.kind, name, self))
        return str(name)

    def find(self, name: Any) -> Any:
        """Return the object of that name; if there is none, the error suggests a similar name."""
        return self[self.check(name)]

    def outside(self) -> list[str]:
        """Return the names of entries of other packages."""
        return [entry.name for entry in self.entries() if entry.outside]

    @overload
    def register(self, name: str, thing: None = None, **details: Any) -> Callable[[T], T]: ...

    @overload
    def register(self, name: str, thing: T, **details: Any) -> T: ...

    def register(self, name: str, thing: Any = None, **details: Any) -> Any:
        """Register an object; without `thing` this is a decorator.

        Parameters
        ----------
        name : str
            A name that is not in use.
        thing : callable or None
            A function or a class.
        **details
            Fields of :class:`Entry`: `summary` (default: first line of the docstring), `label`, `needs`, `can`
            (default: the abilities that are parameters), `good_for`, `order`. None means the default.

        Returns
        -------
        thing
            Unchanged.
        """
        if thing is None:
            return lambda decorated: self.register(name, decorated, **details)
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a {self.kind} must be a word, got {name!r}")
        given = {key: value for key, value in details.items() if value is not None}
        usual = {"summary": _first_line(thing), "can": _parameters(thing)}
        entry = self._entry(name, **{**usual, **given, **_place(thing)})
        self._find()
        with self._lock:
            before = self._entries.get(name)
            if before is not None:
                if not _same(before, entry):
                    raise ValueError(f"a {self.kind} named {name!r} already exists; choose another name")
                entry = replace(entry, outside=before.outside, plug_in=before.plug_in)
            self._entries[name], self._things[name] = entry, thing
        if isinstance(thing, type):
            thing.name = name  # type: ignore[attr-defined]
        return thing

    def remove(self, name: str) -> None:
        """Remove an entry."""
        del self._entries[self.check(name)]
        self._things.pop(name, None)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the entries at the end of a ``with`` block; for tests."""
        self._find()
        before = dict(self._entries), dict(self._things)
        try:
            yield
        finally:
            self._entries, self._things = before

    # Abilities.

    def able(self, ability: str) -> list[str]:
        """Return the names of entries with an ability, a key of :data:`ABILITIES`."""
        return [entry.name for entry in self.entries() if entry.can is not None and ability in entry.can]

    def require(self, name: str, ability: str) -> None:
        """Raise an error if an entry lacks an ability; the message names entries that have it."""
        entry = self.entry(name)
        if entry.can is None or ability in entry.can:
            return
        # Prefer entries that need nothing that this one does not need.
        able = [name for name in self.able(ability) if self._entries[name].needs <= entry.needs] or self.able(ability)
        able = [repr(other) for other in able]
        use = f"; use {', '.join(able[:-1])}{' or ' if able[1:] else ''}{able[-1]}" if able else ""
        raise ValueError(f"{self.kind} {name!r} cannot {ABILITIES[ability]}{use}")

    def check_options(self, name: str, given: Iterable[str], *, hidden: Collection[str] = (), skip: int = 0) -> None:
        """Raise an error for options that an entry does not have.

        Parameters
        ----------
        name : str
        given : iterable of str
            Names of keyword arguments.
        hidden : collection of str
            Parameters that callers may not set.
        skip : int
            Number of leading parameters that are not options.
        """
        parameters = inspect.signature(self.find(name)).parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return
        known = [option for option in list(parameters)[skip:] if option not in hidden]
        for option in given:
            if option in known:
                continue
            if option in ABILITIES:
                self.require(name, option)
            takes = f"Its options are: {', '.join(known)}" if known else "It has none"
            raise ValueError(f"{self.kind} {name!r} has no option {option!r}{_meant(option, known)} {takes}")

    # Search.

    def _find(self) -> None:
        """Search this package and the entry points, once."""
        with self._lock:
            if self._found:
                return
            self._found = True
            for package in self.packages:
                for entry in list(self._declared(package)):
                    self._entries[entry.name] = entry
            if self.group is not None:
                for plug_in in entry_points(group=self.group):
                    self._announce(plug_in)

    def _declared(self, package: str) -> Iterator[Entry]:
        """Yield the entries of a package's modules, read from their source without importing them."""
        top, *inner = package.split(".")
        folders = [str(Path(folder, *inner)) for folder in sys.modules[top].__path__]
        definition = re.compile(
            rf"^@{self.variable}\.register\((.*?)\)\n(?:@.*\n)*(?:def|class) (\w+)", re.MULTILINE | re.DOTALL
        )
        for module in pkgutil.iter_modules(folders):
            path = f"{package}.{module.name}"
            loader: Any = module.module_finder.find_spec(module.name, None).loader  # type: ignore[union-attr]
            source = loader.get_source(module.name)
            if source is None:  # an installation without sources
                importlib.import_module(path)
                yield from (replace(entry, outside=False) for entry in self._entries.values() if entry.module == path)
                continue
            for arguments, attribute in definition.findall(source):
                call: Any = ast.parse(f"_({arguments})", mode="eval").body
                details = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
                name = ast.literal_eval(call.args[0])
                yield self._entry(name, **details, module=path, attribute=attribute, outside=False)

    def _entry(self, name: str, **details: Any) -> Entry:
        """Make an entry; check `needs` and `can`."""
        for key, words in (("needs", NEEDS), ("can", ABILITIES)):
            for word in details.get(key, ()):
                if word not in words:
                    raise ValueError(f"{self.kind} {name!r}: {key} {unknown('flag', word, words)}")
            details[key] = frozenset(details.get(key, ()))
        return Entry(name, **{**details, "label": details.get("label") or name})

    def _announce(self, plug_in: EntryPoint) -> None:
        """List a plug-in by its name; it is imported when it is first used."""
        before = self._entries.get(plug_in.name)
        if before is not None:
            if before.plug_in is None or before.plug_in.value != plug_in.value:  # not a second copy on the path
                warnings.warn(
                    f"the plug-in {plug_in.name!r} ({plug_in.value}) is ignored: a {self.kind} of that name already "
                    "exists; its author must choose another name",
                    stacklevel=2,
                )
            return
        module, _, attribute = plug_in.value.partition(":")
        dist = plug_in.dist
        summary = f"plug-in of {dist.name} {dist.version}" if dist is not None else f"plug-in {plug_in.value}"
        self._entries[plug_in.name] = Entry(
            plug_in.name, summary, plug_in.name, module=module, attribute=attribute, plug_in=plug_in
        )

    def _load(self, entry: Entry) -> None:
        """Import an entry."""
        if entry.plug_in is None:
            self._things[entry.name] = getattr(importlib.import_module(entry.module), entry.attribute)
            return
        try:
            thing = entry.plug_in.load()
            if entry.name not in self._things:  # its module may have registered it itself, with more details
                self._entries[entry.name] = replace(entry, **_place(thing))
                self.register(entry.name, thing)
        except Exception as error:  # name the broken plug-in, whatever it raises
            raise ValueError(f"the plug-in {entry.name!r} ({entry.plug_in.value}) cannot be used: {error}") from error


def unknown(kind: str, name: Any, known: Iterable[str]) -> str:
    """Return an error message for an unknown name: a similar name, and all that are available."""
    names = list(known)
    return f"there is no {kind} {name!r}{_meant(name, names)} Available: {', '.join(names)}"


def _meant(name: Any, known: Collection[str]) -> str:
    folded = {re.sub(r"[\s_-]", "", other).lower(): other for other in known}
    close = difflib.get_close_matches(re.sub(r"[\s_-]", "", str(name)).lower(), folded, n=1, cutoff=0.7)
    return f"; did you mean {folded[close[0]]!r}?" if close else "."


def _place(thing: Any) -> dict[str, Any]:
    """Return where an object is defined, or its class if it has no name."""
    owner = thing if hasattr(thing, "__qualname__") else type(thing)
    return {"module": str(owner.__module__), "attribute": str(owner.__qualname__)}


def _same(before: Entry, after: Entry) -> bool:
    """Whether two entries are the same object: found in the source, declared as an entry point, or defined again."""
    announced = before.plug_in is not None and before.module.split(".")[0] == after.module.split(".")[0]
    return announced or (before.module, before.attribute) == (after.module, after.attribute)


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").strip().partition("\n")[0].rstrip(".")


def _parameters(thing: Callable[..., Any]) -> list[str]:
    """Return the abilities that are parameters of a function."""
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return []
    return [ability for ability in ABILITIES if ability in parameters]


SOLVERS = Registry("SOLVERS", "method", ("maxsparse.solvers",), "maxsparse.solvers")
NETWORKS = Registry("NETWORKS", "network", ("maxsparse.networks", "maxsparse.learned_sbl"), "maxsparse.networks")
EXPERIMENTS = Registry("EXPERIMENTS", "experiment", ("maxsparse.experiments",), None)
STEREO = Registry(
    "STEREO", "stereo method", ("maxsparse.stereo.methods", "maxsparse.stereo.fitting"), "maxsparse.stereo"
)
