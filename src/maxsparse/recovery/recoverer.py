"""``SparseRecoverer``: from signals to certified answers, with the conventions of scikit-learn."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, validate_data

from maxsparse._core.compiled import compiling
from maxsparse._core.names import atom_names, in_order, measurement_names
from maxsparse._core.prepared import Prepared
from maxsparse._core.products import is_operator
from maxsparse._core.progress import track
from maxsparse._core.threads import threads
from maxsparse._core.validation import (
    FloatArray,
    check_integer,
    check_matrix,
    check_number,
    check_signals,
    is_complex,
)
from maxsparse.learned_sbl import LearnedScores, Weights, bundled_later, bundled_weights
from maxsparse.learned_sbl.spec import as_arrays, check_weights
from maxsparse.recovery import storage
from maxsparse.recovery.answers import Beyond, Recovery, Unscored, blank
from maxsparse.recovery.law import Law, warn_of_strange
from maxsparse.recovery.noise import Noise, check_noise, warn_of_noise
from maxsparse.recovery.pipeline import WIDE, Pipeline, Scorer
from maxsparse.recovery.pooled_noise import pooled_over
from maxsparse.recovery.screened import recover_screened
from maxsparse.recovery.search import check_budget
from maxsparse.recovery.structured_model import (
    is_structured,
    learned_structured_law,
    pooled_structured_noise,
    recover_structured,
)
from maxsparse.recovery.trained import TrainedScores, check_name, train_scores
from maxsparse.recovery.unknown_noise import UnknownNoise

__all__ = ["SparseRecoverer", "load"]

KERNELS = 7  # that the first call compiles; with noise a few more
CHUNK_BYTES = 64 * 2**20  # of one (signals, atoms) array
WIDE_SHARE, LEAST_WIDE = 50, 4  # of a wide Φ, one such array takes this part of its memory; signals at least
FIT_SIGNALS = 500  # from which a noise level is pooled, at most
LAW_SIGNALS = 200  # from which a law is learned, at most

# Φ prepared, per recoverer. Not an attribute, so that copies, clones and pickles do not carry it.
_kept: WeakKeyDictionary[SparseRecoverer, Prepared] = WeakKeyDictionary()


class SparseRecoverer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""Find the sparsest x with y = Φx, and report which answers are certified.

    A network scores every atom, and the best-scored atoms are decoded. Unsolved signals are scored again, twice, by
    networks trained on unsolved signals, then a search guided by these scores follows. Every answer is refitted in
    float64 and checked for a certificate.

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex, or a real LinearOperator
        Dictionary: n measurements, m atoms. Of a ``scipy.sparse.linalg.LinearOperator`` promising atoms are looked up
        and solved for: certificates hold over all atoms, probabilities are relative to the atoms that were looked up.
    network : str or object with ``scores(Y)``, default="learned_sbl"
        Network that scores the atoms. ``"learned_sbl"`` is bundled and not tied to a dictionary, so it needs no
        training. Any other name in ``maxsparse.networks.NETWORKS`` (``"residual"``, ``"lstm"``, …) is trained for Φ by
        :meth:`fit`. Your own object returns scores (N, m), larger for more likely atoms; the search works best if they
        are log odds.
    noise : "auto", float, ndarray of shape (n,) or (n, n), default="auto"
        Standard deviation of the noise on every measurement, one for each of them, or their covariance. With 0,
        answers are exact and can be certified. With noise, the answer is the most probable support, and its probability
        is given. ``"auto"``: a signal that has an exact answer gets it, and its certificate; the noise level of any
        other one is learned from it. Of complex noise e, σ² is the mean of ``|e|²``.
    positive : bool, default=False
        Only coefficients of at least zero.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms; those of one label come and go together.
    budget : int or str, default="normal"
        Search effort for a signal that decoding did not solve: a number of information sets, ``"none"``, ``"fast"``,
        ``"normal"``, ``"thorough"``, or milliseconds per unsolved signal on average, such as ``"20ms"``. All but the
        last are reproducible; with noise the last is too. Scoring and decoding are not counted.
    rtol : float or None, default=None
        Relative rounding error of the data. None: that of the dtype of Φ, or of Y if it is coarser.
    random_state : int, default=0
        Seed of the search.
    names : iterable of m str or None, default=None
        Names of the atoms, for tables and plots of the result and :meth:`get_feature_names_out`. None: the columns of
        Φ if it is a table (DataFrame). The index of such a Φ names the measurements, and the columns of a table Y are
        brought into that order.
    n_threads : int or None, default=None
        Number of threads; None uses all cores. Answers do not depend on it.

    Attributes
    ----------
    n_features_in_ : int
        n, after :meth:`fit`.
    noise_ : float
        Noise level that all signals of :meth:`fit` share; 0 if most of them have exact answers: then every signal is
        looked at by itself.
    law_ : Law or None
        What :meth:`fit` learned of the coefficients, with noise.
    trained_ : TrainedScores
        The trained network, after :meth:`fit` with a network other than ``"learned_sbl"``.

    See Also
    --------
    maxsparse.solve : Classical methods.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 200, sparsity=6, rng=1)
    >>> result = ms.SparseRecoverer(Phi).recover(Y)
    >>> bool(result.certified.mean() > 0.99), bool((result.support == (X != 0)).mean() > 0.999)
    (True, True)
    >>> result.argument[0].item()
    'generic'
    """

    def __init__(
        self,
        Phi: ArrayLike,
        *,
        network: Any = "learned_sbl",
        noise: float | str | ArrayLike = "auto",
        positive: bool = False,
        groups: ArrayLike | None = None,
        budget: int | str = "normal",
        rtol: float | None = None,
        random_state: int = 0,
        names: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.Phi = Phi
        self.network = network
        self.noise = noise
        self.positive = positive
        self.groups = groups
        self.budget = budget
        self.rtol = rtol
        self.random_state = random_state
        self.names = names
        self.n_threads = n_threads

    def fit(
        self, Y: ArrayLike | None = None, y: Any = None, *, minutes: float = 0.0, **training: Any
    ) -> SparseRecoverer:
        """Train the network for Φ, or fine-tune the bundled one; without `minutes` the bundled one is not changed.

        Of the bundled networks only that of the first pass is fine-tuned.

        Parameters
        ----------
        Y : array-like of shape (N, n) or None, default=None
            Signals from which their common noise level is learned, with ``noise="auto"``, and, with noise, how many
            nonzeros there are and how amplitudes are distributed; :meth:`recover` uses it from then on, which finds
            more supports and makes confidence right on average over such signals. Networks learn from signals drawn
            from Φ.
        y : ignored
        minutes : float, default=0.0
            Training time; ``"learned_sbl"`` is fine-tuned on one core. After Ctrl-C it keeps the weights so far.
        **training
            ``progress=``; for networks other than ``"learned_sbl"``, options of :func:`maxsparse.training.fit`:
            ``samples=``, ``sparsity=``, ``hyperparameters=``, …

        Returns
        -------
        self : SparseRecoverer
        """
        if is_operator(self.Phi):
            raise ValueError("fit needs a matrix, and Phi is an operator; recover works without fit")
        if is_structured(self, Y):
            return self._fit_structured(Y, minutes, training)
        checked = None if Y is None else self._signals(Y, reset=True)
        prepared = self._prepared()
        if checked is not None:
            check_signals(checked, prepared.shape)
        Phi = prepared.given
        minutes = check_number(minutes, "minutes", low=0.0)
        noise = self._typical_noise(prepared)
        for option, parameter in (("noise", "noise"), ("rng", "random_state"), ("seed", "random_state")):
            if option in training:
                raise ValueError(f"fit does not accept {option}=; pass {parameter}= to SparseRecoverer")
        if self.network == "learned_sbl":
            progress = bool(training.pop("progress", False))
            if training:
                raise ValueError(f"network='learned_sbl' is fine-tuned with minutes= only, got {', '.join(training)}")
            if minutes > 0:
                from maxsparse.learned_sbl.train import InterruptedTuning, tune

                start, seed = as_arrays(self._weights()), self.random_state
                try:
                    tuned = tune(Phi, start, minutes=minutes, seed=seed, noise=noise, progress=progress)
                except InterruptedTuning as stopped:
                    self.weights_ = check_weights(stopped.weights, "the tuned network")
                    raise
                self.weights_ = check_weights(tuned, "the tuned network")
        elif isinstance(self.network, str):
            options = {"n_threads": self.n_threads, "minutes": minutes or None, **training}
            self.trained_ = train_scores(Phi, self.network, noise=noise, seed=self.random_state, **options)
        elif minutes > 0 or training:
            raise ValueError(f"your own network {self.network!r} cannot be trained here; train it before")
        if checked is not None:
            unknown = check_noise(self.noise, prepared.shape[0]).unknown
            self.noise_ = self._pooled_noise(prepared, checked) if unknown else noise
            self.law_ = self._learned_law(prepared, checked)
        self.n_features_in_ = Phi.shape[0]
        return self

    def _fit_structured(self, Y: Any, minutes: float, training: dict[str, Any]) -> SparseRecoverer:
        """Learn noise level and law of signals with a structure; the bundled network stays as it is."""
        if minutes > 0 or training:
            raise ValueError(
                "networks are trained for real signals (N, n) with free signs of single atoms; "
                "omit minutes= and training options"
            )
        for name in ("noise_", "law_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if Y is not None:
            noise: Any = self.noise
            self.noise_ = pooled_structured_noise(self, Y) if isinstance(noise, str) else float(np.mean(noise))
            self.law_ = learned_structured_law(self, Y)
        self.n_features_in_ = int(np.shape(self.Phi)[0])
        return self

    def transform(self, Y: ArrayLike) -> FloatArray:
        """Return the coefficients (N, m) of signals (N, n), or (N, L, m) of (N, L, n)."""
        return self.recover(Y).coef

    def recover(self, Y: ArrayLike, *, easy_first: bool = True, prove: float = 0.0, progress: bool = False) -> Recovery:
        """Recover signals and certify the answers where possible.

        Parameters
        ----------
        Y : array-like of shape (N, n), or (N, L, n), real or complex
            Signals as rows; or L snapshots for each, which share one support.
        easy_first : bool, default=True
            Without noise, run whitened OMP first, and the network for signals without a certified answer only. The
            answers are the same; if hardly any signal is easy, False saves the time of OMP.
        prove : float, default=0.0
            With noise: milliseconds per signal to spend on proving how many nonzeros are needed. Answers that are
            proven to be the only sparsest ones up to the noise are ``certified``, with the argument ``"optimal"``. A
            noise level that was learned counts as given.
        progress : bool, default=False
            Show progress bars on a terminal.

        Returns
        -------
        result : Recovery
            ``iterations`` counts the information sets searched, with noise the climbs; ``converged`` is True where an
            exact answer was found, or, with noise, where the search ended before its budget.
        """
        if is_operator(self.Phi):
            with threads(self.n_threads):
                return recover_screened(self, self._signals_of_operator(Y), prove=prove, progress=progress)
        if is_structured(self, Y):
            return recover_structured(self, Y, prove=prove, progress=progress)
        checked, prepared = self._signals(Y), self._prepared()
        signals = check_signals(checked, prepared.shape)
        N, m = len(signals), prepared.shape[1]
        name = self.network if isinstance(self.network, str) else type(self.network).__name__
        noise = self._noise(prepared)
        result = blank(N, m, np.result_type(prepared.dtype, signals), name, atom_names(self.Phi, self.names))
        prove = check_number(prove, "prove", low=0.0)
        beyond = Beyond(N, m, result.coef.dtype)
        size, strange = _signals_at_once(*prepared.shape), 0
        with threads(self.n_threads), compiling(KERNELS):
            options: dict[str, Any] = {"easy_first": easy_first, "prove": prove, "progress": progress}
            pipeline = self._pipeline(prepared, signals.dtype, noise, **options)
            for start in track(range(0, N, size), "recover", progress):
                rows = slice(start, min(N, start + size))
                # Always a copy: a read-only or strided array would have every kernel compiled once more.
                chunk = np.array(signals[rows], dtype=np.float64, order="C")
                part = result[rows]  # views of the same arrays
                assert isinstance(part, Recovery)
                found = pipeline(chunk, part)
                if found is not None:
                    beyond.add(start + found.rows, found.inclusion, found.mean, found.posterior)
                    strange += int(np.count_nonzero(found.strange))
        result = beyond.complete(result, prepared.cosines, always=noise.sigma > 0)
        if noise.sigma > 0:
            warn_of_noise(result, noise)
            warn_of_strange(strange, N)
        easy = np.flatnonzero(result._waiting >= 0)
        if not len(easy):
            return result
        result._waiting[easy] = np.arange(len(easy))
        unscored = Unscored(pipeline.scores, np.array(signals[easy], dtype=np.float64, order="C"), self.n_threads)
        return replace(result, _unscored=unscored)

    def score(self, Y: ArrayLike, y: Any = None) -> float:
        """Return the share of answers that are certified or, with noise, the mean confidence; for model selection.

        Parameters
        ----------
        Y : array-like of shape (N, n)
            Signals as rows.
        y : ignored
            Where true coefficients X are known, a search takes a score of your own, such as
            ``scoring=lambda model, Y, X: maxsparse.metrics.exact_recovery(X, model.transform(Y))``.

        Returns
        -------
        score : float
        """
        result = self.recover(Y)
        return float(np.mean(result.certified if result.posterior is None else result.confidence))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write Φ, its preconditioner, the weights and all parameters to one safetensors file.

        Parameters
        ----------
        path : str or path
            File to write; an existing one is replaced atomically. Read it with :func:`maxsparse.load`.
        """
        if is_operator(self.Phi):
            raise ValueError("an operator is code, which a model file does not hold; build SparseRecoverer again")
        if is_complex(self.Phi):
            raise ValueError("a complex Phi cannot be saved in a model file; save Phi by numpy.save and build it again")
        prepared = self._prepared()
        scorer = self._scorer(prepared)
        if not isinstance(scorer, LearnedScores | TrainedScores):
            raise ValueError("your own network cannot be saved unless it is registered: the file holds no code")
        names = {"atoms": atom_names(self.Phi, self.names), "measurements": self._measurement_names()}
        storage.write(path, prepared, scorer, self._settings(), getattr(self, "law_", None), names)

    def scorer(self) -> Scorer:
        """Return the scorer for Φ: ``scorer(Y, noise)`` returns scores (N, m) of float64 signals (N, n)."""
        return self._scorer(self._prepared())

    def network_arrays(self) -> dict[str, Any]:
        """Return the weights of the network in use as numpy arrays by name, including bundled ones."""
        scorer = self.scorer()
        return scorer.arrays() if isinstance(scorer, LearnedScores | TrainedScores) else {}

    def _settings(self) -> dict[str, Any]:
        settings = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in ("Phi", "network", "names")
        }
        if self.groups is not None:
            settings["groups"] = np.asarray(self.groups).tolist()
        learned = float(getattr(self, "noise_", 0.0))
        return settings | {"noise": learned} if isinstance(self.noise, str) and learned > 0 else settings

    def _prepared(self) -> Prepared:
        """Return Φ prepared: as for the last call, unless `Phi` holds other numbers now."""
        Phi, own, kept = self._dictionary(), getattr(self, "preconditioner_", None), _kept.get(self)
        if kept is None or not kept.matches(Phi, own):
            kept = _kept[self] = Prepared.of(Phi, own)
        return kept

    def _dictionary(self) -> ArrayLike:
        return self.Phi

    def _noise(self, prepared: Prepared) -> Noise:
        """Return what is known of the noise: what was given, or learned by :meth:`fit`."""
        noise = check_noise(self.noise, prepared.shape[0])
        pooled = float(getattr(self, "noise_", 0.0))
        return Noise(pooled) if noise.unknown and pooled > 0 else noise

    def _pooled_noise(self, prepared: Prepared, Y: FloatArray) -> float:
        """Return one noise level for all signals; 0 if at least half of them have exact answers."""
        chosen = np.unique(np.linspace(0, len(Y) - 1, min(len(Y), FIT_SIGNALS)).astype(np.intp))
        rows = np.array(Y[chosen], dtype=np.float64, order="C")
        rows = rows[rows.any(axis=1)]
        alone = SparseRecoverer(self.Phi, network=self.network, budget="fast", rtol=self.rtol, n_threads=self.n_threads)
        alone.__dict__ |= {
            name: value for name, value in self.__dict__.items() if name.endswith("_") and name[-2] != "_"
        }
        for name in ("noise_", "feature_names_in_"):  # the rows that follow are arrays
            alone.__dict__.pop(name, None)
        result = alone.recover(rows) if len(rows) else None
        if result is None or 2 * np.count_nonzero(result.noise > 0) <= len(rows):
            return 0.0
        return pooled_over(prepared, rows, result)

    def _learned_law(self, prepared: Prepared, Y: FloatArray) -> Law | None:
        """Return what signals say together about their coefficients, with noise."""
        noise = self._noise(prepared)
        if noise.unknown or noise.sigma == 0:
            return None
        self.law_ = None  # of an earlier fit
        chosen = np.unique(np.linspace(0, len(Y) - 1, min(len(Y), LAW_SIGNALS)).astype(np.intp))
        with threads(self.n_threads):
            pipeline = self._pipeline(prepared, Y.dtype, noise, progress=False)
            return pipeline.learn(np.array(Y[chosen], dtype=np.float64, order="C"))

    def _typical_noise(self, prepared: Prepared) -> float:
        """Return one standard deviation for training, whatever `noise` says of every measurement."""
        noise = self._noise(prepared)
        if noise.whitener is None:
            return noise.sigma
        return float(np.sqrt(np.mean(np.linalg.inv(noise.whitener.T @ noise.whitener).diagonal())))

    def _pipeline(self, prepared: Prepared, dtype: Any, noise: Noise, *, progress: bool, **options: Any) -> Pipeline:
        """Check the options and put the steps together, for signals of that dtype."""
        rtol = self.rtol
        if rtol is None:
            rtol = float(max(np.finfo(prepared.dtype).eps, np.finfo(dtype).eps))
        problem = prepared.problem(check_number(rtol, "rtol", low=0.0))
        scorer = self._scorer(prepared)
        if noise.whitener is not None:
            scorer = self._scorer_after(noise.whitener, prepared, scorer)
        if isinstance(scorer, LearnedScores):
            scorer.progress = progress
        search = check_budget(self.budget), check_integer(self.random_state, "random_state")
        kind = UnknownNoise if noise.unknown else Pipeline
        law: Law | None = getattr(self, "law_", None)
        return kind(prepared, problem, scorer, noise, *search, progress=progress, law=law, **options)

    def _scorer_after(self, L: NDArray[np.float64], prepared: Prepared, scorer: Scorer) -> Scorer:
        """Return a scorer for signals Ly: learned SBL serves LΦ; others, made for Φ, get y back."""
        if isinstance(scorer, LearnedScores):
            return LearnedScores(prepared.changed(L), scorer.weights, scorer.later)
        back = np.linalg.inv(L).T
        return lambda Z, noise: scorer(Z @ back, self._typical_noise(prepared))

    def _signals_of_operator(self, Y: Any) -> Any:
        """Check signals (N, n); what an operator cannot take is left to other checks."""
        return Y if is_structured(self, Y) else self._signals(Y)

    def _signals(self, Y: ArrayLike, *, reset: bool = False) -> FloatArray:
        """Check signals as scikit-learn does, names and number of features included."""
        names = self._measurement_names()
        Y = in_order(Y, names)
        options: dict[str, Any] = {"dtype": [np.float64, np.float32], "accept_sparse": True, "estimator": self}
        options |= {"ensure_all_finite": False, "ensure_min_samples": 1 if reset else 0, "input_name": "Y"}
        try:
            checked = check_array(Y, **options)
        except (ValueError, RuntimeError) as error:
            try:
                check_matrix(Y, "Y")  # says what to do, where it knows
            except ValueError as better:
                # scikit-learn's own checks look for its words.
                words = "; Reshape your data" if "Reshape your data" in str(error) else ""
                raise ValueError(f"{better}{words}") from error
            raise
        compared = names is not None and not reset and not hasattr(self, "feature_names_in_")
        validate_data(self, checked if compared else Y, reset=reset, skip_check_array=True)
        return cast(FloatArray, checked)

    def _measurement_names(self) -> tuple[str, ...] | None:
        """Return the names of the measurements: the index of Φ, or what the file of a saved recoverer holds."""
        return cast("tuple[str, ...] | None", getattr(self, "measurements_", None) or measurement_names(self.Phi))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the atoms, which are the columns of what :meth:`transform` returns.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of m str
        """
        names = atom_names(self.Phi, self.names)
        if names is None:
            return cast("NDArray[Any]", super().get_feature_names_out(input_features))
        return np.array(names, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return int(np.shape(self.Phi)[1])

    def _weights(self) -> Weights:
        return self.weights_ if hasattr(self, "weights_") else bundled_weights()

    def _later_weights(self) -> tuple[Weights, ...]:
        return self.later_weights_ if hasattr(self, "later_weights_") else bundled_later()

    def _scorer(self, prepared: Prepared) -> Scorer:
        if isinstance(self.network, str):
            if self.network == "learned_sbl":
                return LearnedScores(prepared, self._weights(), self._later_weights())
            check_name(self.network)
            trained = getattr(self, "trained_", None)
            if trained is None or trained.network.name != self.network:
                raise NotFittedError(f"network {self.network!r} is trained for Phi: call fit(minutes=…) first")
            return cast(Scorer, trained)
        if not hasattr(self.network, "scores"):
            raise ValueError(f"network must be a name or an object with scores(Y), got {self.network!r}")
        if hasattr(self.network, "hyperparameters"):  # one of ours, that a file can hold
            return TrainedScores(self.network)
        return lambda Y, noise: np.asarray(self.network.scores(Y))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Name the parameters that are not the default ones; of Φ, its shape."""
        shape = "×".join(map(str, np.shape(self.Phi)))
        shown = {"Phi": f"<{shape}>"}
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name)
            if name != "Phi" and repr(value) != repr(parameter.default):
                # A network of the caller's own may have a long repr.
                shown[name] = f"<{type(value).__name__}>" if hasattr(value, "scores") else repr(value)
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in shown.items())})"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.sparse = True
        return tags


def _signals_at_once(n: int, m: int) -> int:
    """Return how many signals to recover together: of many atoms, so few that their arrays stay small next to Φ."""
    most = max(1, CHUNK_BYTES // (8 * m))
    if m <= WIDE:
        return most
    return min(most, max(LEAST_WIDE, n // WIDE_SHARE // LEAST_WIDE * LEAST_WIDE))  # message passing goes in fours


def load(path: str | os.PathLike[str]) -> SparseRecoverer:
    """Load a file of :meth:`SparseRecoverer.save`.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : SparseRecoverer
        Ready to recover, with bitwise identical answers.

    Examples
    --------
    >>> import os, tempfile
    >>> import maxsparse as ms
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> ms.SparseRecoverer(ms.dictionaries.gaussian(10, 30, rng=0), budget="fast").save(path)
    >>> ms.load(path).budget
    'fast'
    """
    saved = storage.read(path)
    network = "learned_sbl" if saved.trained is None else saved.trained.network.name
    model = SparseRecoverer(saved.Phi, network=network, names=saved.names["atoms"], **saved.settings)
    if saved.names["measurements"] is not None:
        model.measurements_ = tuple(saved.names["measurements"])
    if saved.trained is None:
        model.weights_, *later = saved.passes
        model.later_weights_ = tuple(later)
    else:
        model.trained_ = saved.trained
    model.preconditioner_ = saved.preconditioner
    if saved.law is not None:
        model.law_ = saved.law
    return model
