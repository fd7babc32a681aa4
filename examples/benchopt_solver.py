"""A solver for the public benchmark of sparse support recovery, TheoGuyard/benchmark_sparse_support_recovery.

Copy this file into its ``solvers/`` folder, install maxsparse, and run ``benchopt run . -s maxsparse -s omp``.
The benchmark is written for benchopt 1.5.1 (with click 8.1): its grid criterion does not accept the arguments that 1.10
passes. The benchmark asks for the best w of y = Xw with a given share of nonzeros, for one y, over a grid of shares.
Its X is the dictionary. The noise level is not given; ``noise_share`` is the assumed ratio of noise to signal.
"""

import numpy as np
from benchmark_utils.stopping_criterion import RunOnGridCriterion
from benchopt import BaseSolver, safe_import_context

with safe_import_context() as import_ctx:  # so that `benchopt install` can read the requirements below
    import maxsparse as ms


class Solver(BaseSolver):
    """Rank the atoms with learned SBL or a classical method; least squares on the k best."""

    name = "maxsparse"
    install_cmd = "conda"
    requirements = ["pip:maxsparse"]
    stopping_criterion = RunOnGridCriterion(grid=np.linspace(0, 0.1, 10))
    parameters = {"method": ["recoverer", "sbl"], "noise_share": [0.1]}
    sampling_strategy = "iteration"

    def set_objective(self, X, y, **_):
        """Store the dictionary (n, m) and one signal (n,)."""
        self.X, self.y = np.asarray(X), np.asarray(y)
        self.noise = float(self.noise_share * np.sqrt(np.mean(self.y**2)))

    def warm_up(self):
        """Compile before the clock starts."""
        self.run(1 / self.X.shape[1])

    def run(self, share):
        """Rank the atoms and fit on the k best; the time includes the ranking."""
        k = min(int(np.floor(share * self.X.shape[1])), self.X.shape[0])
        self.w = np.zeros(self.X.shape[1])
        if k > 0:
            if self.method == "recoverer":
                result = ms.SparseRecoverer(self.X, noise=self.noise).recover(self.y[None, :])
            else:
                options = {"precondition": True, "noise": self.noise}
                result = ms.solve(self.X, self.y[None, :], method=self.method, **options)
            best = np.argsort(-result.scores[0], kind="stable")[:k]
            self.w[best] = np.linalg.lstsq(self.X[:, best], self.y, rcond=None)[0]

    def get_result(self):
        """Return what the objective evaluates."""
        return {"w": self.w}
