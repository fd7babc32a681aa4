"""One training loop for every network.

The loop (:func:`train`) knows neither the network nor the data. It needs three things:

A **network**
    A :class:`maxsparse.networks.Network`: a torch module that ``networks.create(name, **hyperparameters)`` can make
    again from plain JSON. The loop never calls it; it hands it to the task.

A **task**
    Any object with the members of :class:`Task`: what to learn from, and how wrong the network is.

    - ``settings``: plain JSON that describes it. It is stored, and a resumed run must have the same.
    - ``arrays``: numpy arrays stored beside the weights, such as ``{"Phi": Phi}``; may be empty.
    - ``batch(number, size, rows, device)``: the rows ``range(rows.start, rows.stop)`` of batch ``number``, as a pair
      (inputs, targets) of whatever ``loss`` understands. It must depend on its arguments and on the task's seed alone:
      that is what makes a run resumable, and what lets several processes share a batch. A task may make fewer rows
      than were asked for, as many in every process; the budget counts those that were asked for.
    - ``loss(network, inputs, targets)``: a scalar tensor, the mean over the rows. Call ``network(…)`` inside: under
      torch.distributed it is the wrapped module that exchanges gradients.
    - ``validate(network)``: a dict of plain JSON with the key ``"score"``, larger for better; the network is in
      evaluation mode, gradients are off. The weights with the best score are kept. Lists named ``"strict"``,
      ``"loose"`` and ``"degrees"`` are shown by the progress bar. A FloatingPointError tells of divergence.

**Settings**
    A :class:`Settings`, most easily from :data:`PRESETS`: optimiser, learning rate, batch size and schedule.

The position of a run is a number of batches, and everything follows from (seed, position): a run killed at any moment
and resumed ends with the same bits as one that was never killed, on the same number of threads. A budget in minutes is
the one exception: there the clock decides how far the learning rate has come.

:func:`fit` puts the three together for one dictionary, and :func:`resume` goes on after an interruption. Learned SBL,
which serves every dictionary, has a task of its own (:class:`DictionariesTask`) in ``maxsparse.training.learned_sbl``,
and so has the network of photometric stereo, in ``maxsparse.stereo.learned.train``.

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
from maxsparse.training.data_dictionaries import DictionariesTask
from maxsparse.training.fit import fit, resume
from maxsparse.training.loop import InterruptedTraining, train
from maxsparse.training.losses import LOSSES
from maxsparse.training.presets import PRESETS, Settings, preset_for
from maxsparse.training.processes import ReproducibilityWarning
from maxsparse.training.run import DivergenceError, Task

__all__ = [
    "LOSSES",
    "PRESETS",
    "DictionariesTask",
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
