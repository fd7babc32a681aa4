"""One training loop for every network.

The loop (:func:`train`) is independent of network and data. It needs three things:

A **network**
    A :class:`maxsparse.networks.Network`: a torch module that ``networks.create(name, **hyperparameters)`` can create
    again from plain JSON. The loop does not call it; it passes it to the task.

A **task**
    Any object with the members of :class:`Task`: the training data and the loss.

    - ``settings``: plain JSON that describes it. It is stored, and must be the same in a resumed run.
    - ``arrays``: numpy arrays stored with the weights, such as ``{"Phi": Phi}``; may be empty.
    - ``batch(number, size, rows, device)``: the rows ``range(rows.start, rows.stop)`` of batch ``number``, as a pair
      (inputs, targets) for ``loss``. It must depend only on its arguments and on the task's seed: this makes a run
      resumable, and lets several processes share a batch. A task may return fewer rows than requested, equally many in
      every process; the budget counts the requested ones.
    - ``loss(network, inputs, targets)``: a scalar tensor, the mean over the rows. Call ``network(…)`` inside: under
      torch.distributed the wrapped module exchanges gradients.
    - ``validate(network)``: a dict of plain JSON with the key ``"score"``, larger for better; the network is in
      evaluation mode, gradients are off. The weights with the best score are kept. Lists named ``"strict"``,
      ``"loose"`` and ``"degrees"`` are shown by the progress bar. A FloatingPointError means divergence.

**Settings**
    A :class:`Settings`, most easily from :data:`PRESETS`: optimiser, learning rate, batch size and schedule.

The position of a run is a number of batches, and everything follows from (seed, position): a run killed at any moment
and resumed gives bitwise identical results to an uninterrupted one, with the same number of threads. A budget in
minutes is the exception: there the learning rate depends on the clock.

:func:`fit` combines the three for one dictionary, and :func:`resume` continues after an interruption. Learned SBL,
which works for every dictionary, has its own tasks in ``maxsparse.learned_sbl.tasks``, and so has the network of
photometric stereo, in ``maxsparse.stereo.reading_network.train``.

>>> import maxsparse as ms
>>> from maxsparse import networks, training
>>> Phi = ms.dictionaries.gaussian(8, 16, rng=0)
>>> task = training.SupportTask(Phi, sparsity=(1, 2), rng=0, validation_signals=50)
>>> network = networks.build("residual", Phi, width=32, depth=4, rng=0)
>>> settings = training.PRESETS["modern"].but(batch_size=64)
>>> report = training.train(network, task, settings, samples=20_000, n_threads=1)
>>> report.best["strict"][0] > 0.5
True
"""

from maxsparse._core.extras import needs

with needs("training"):
    import torch  # noqa: F401  (here, so that the message is clear where it is missing)

from maxsparse.training.budget import Report
from maxsparse.training.checkpoint import checkpoint_path
from maxsparse.training.data import SupportTask
from maxsparse.training.fit import fit, resume
from maxsparse.training.loop import InterruptedTraining, train
from maxsparse.training.losses import LOSSES
from maxsparse.training.presets import PRESETS, Settings, preset_for
from maxsparse.training.processes import ReproducibilityWarning
from maxsparse.training.run import DivergenceError, Task

__all__ = [
    "LOSSES",
    "PRESETS",
    "DivergenceError",
    "InterruptedTraining",
    "Report",
    "ReproducibilityWarning",
    "Settings",
    "SupportTask",
    "Task",
    "checkpoint_path",
    "fit",
    "preset_for",
    "resume",
    "train",
]
