"""Sources in the brain: places, errors and times next to gamma_map, mixed_norm and rap_music of MNE-Python.

    python benchmarks/brain.py                       # all parts, 3 problems per cell
    python benchmarks/brain.py free fixed --problems 20
    python benchmarks/brain.py --methods ours        # again, next to what was measured of the others
    python benchmarks/brain.py meg                   # needs the lead fields, see below

`free` and `fixed`: 64 electrodes on a sphere, 1,000 places. `meg`: lead fields of two heads (204 gradiometers, about
4,690 places, fixed orientations) in the folder $MAXSPARSE_DATA or ../shared/data; skipped where they are missing.
`between`: as `free`, but the sources are on a grid of 5,003 places. `size fixed`, `size free`: 64 electrodes, 20,000
places. 100 samples everywhere.

Sources are at random places of the grid, at least 15 mm apart. Only `sparse_inverse` is told nothing: gamma_map has the
true variance of the noise, mixed_norm the best of three penalties for every problem, rap_music the number of sources.
Of gamma_map and mixed_norm, places of at least a tenth of the largest amplitude count. Times are processor seconds with
one thread of BLAS for all: more threads wait for each other, which counts as time. Every head was seen before: ours
knows it again.
"""

import argparse
import json
import os
import time
import warnings
from functools import cache
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import mne
import numpy as np
from machine import describe
from scipy.optimize import linear_sum_assignment

from maxsparse.fields import brain

PACKAGES = ("maxsparse", "numpy", "numba", "mne")
RESULTS = Path(__file__).parent / "results" / "brain.json"
DATA = Path(os.environ.get("MAXSPARSE_DATA", Path(__file__).parents[2] / "shared" / "data"))
CELLS = [
    {"sources": k, "snr": snr, "correlation": rho}
    for k in (1, 3, 5)
    for snr in (5, 15, 30)
    for rho in ((0.0, 0.9) if k > 1 else (0.0,))
]
BETWEEN = [{"sources": 3, "snr": snr, "correlation": 0.0} for snr in (5, 15, 30)]
LARGE = [{"sources": 3, "snr": 15, "correlation": 0.0}]
SEED = 20_261_117
NEAR = 0.010  # metres: a place this close to a true one is right
APART = 0.015
PENALTIES = (20, 40, 60)


def lead_field_head(name):
    """Return a forward solution with the given lead field, as MNE-Python has it, or None."""
    path = DATA / f"meg_leadfield_{name}.npz"
    if not path.is_file():
        print(f"skipped: {path} is missing; set MAXSPARSE_DATA")
        return None
    with np.load(path) as file:
        gain, positions = file["lead_field"].astype(float), file["positions"].astype(float)
    n, B = gain.shape
    FIFF = mne.io.constants.FIFF
    info = mne.create_info([f"MEG{i:04d}" for i in range(n)], 200.0, "grad")
    normals = np.tile([0.0, 0.0, 1.0], (B, 1))
    space = {
        "type": "discrete",
        "id": 101,
        "rr": positions,
        "nn": normals,
        "np": B,
        "nuse": B,
        "ntri": 0,
        "nuse_tri": 0,
    }
    space |= {"vertno": np.arange(B), "inuse": np.ones(B, int), "coord_frame": FIFF.FIFFV_COORD_HEAD}
    sol = {"data": gain, "row_names": info["ch_names"], "col_names": [], "nrow": n, "ncol": B}
    forward = mne.Forward(
        sol=sol, _orig_sol=gain.copy(), sol_grad=None, info=info, nchan=n, nsource=B, source_rr=positions,
        source_nn=normals, source_ori=FIFF.FIFFV_MNE_FIXED_ORI, surf_ori=True, src=mne.SourceSpaces([space]),
        coord_frame=FIFF.FIFFV_COORD_HEAD, mri_head_t=None,
    )  # fmt: skip
    return forward, mne.make_ad_hoc_cov(info, {"grad": 1e-5}), info


def heads(part):
    if part == "meg":
        return [head for head in map(lead_field_head, "ab") if head is not None]
    return [brain.sphere_head(20_000 if part.startswith("size") else 1000, fixed="fixed" in part)]


@cache
def fine_head():
    return brain.sphere_head(5003)


def strong(dipoles):
    size = [np.linalg.norm(dipole.amplitude) for dipole in dipoles]
    return np.array([d.pos[0] for d, s in zip(dipoles, size, strict=True) if s >= 0.1 * max(size)]).reshape(-1, 3)


def methods(part):
    loose = 0.0 if part in ("fixed", "meg", "size fixed") else 1.0
    options = {"loose": loose, "return_as_dipoles": True}

    def ours(evoked, forward, noise_cov, k):
        found = brain.sparse_inverse(evoked, forward, noise_cov, loose=loose, return_as="all")
        return [found.positions], found.confidence

    def gamma_map(evoked, forward, noise_cov, k):
        return [strong(mne.inverse_sparse.gamma_map(evoked, forward, noise_cov, alpha=1.0, **options))], None

    def mixed_norm(evoked, forward, noise_cov, k):
        every = []
        for alpha in PENALTIES:
            try:
                dipoles = mne.inverse_sparse.mixed_norm(evoked, forward, noise_cov, alpha, n_mxne_iter=10, **options)
            except Exception:  # no active dipole, which it raises as such
                dipoles = []
            every.append(strong(dipoles) if dipoles else np.empty((0, 3)))
        return every, None

    def rap_music(evoked, forward, noise_cov, k):
        return [np.array([d.pos[0] for d in mne.beamformer.rap_music(evoked, forward, noise_cov, k)])], None

    return {"ours": ours, "gamma_map": gamma_map, "mixed_norm": mixed_norm, "rap_music": rap_music}


def scores(found, truth):
    """Return the error in mm, both ways from every place to the nearest of the others, and F1."""
    if not len(found):
        return 100.0, 0.0
    distance = np.linalg.norm(found[:, None] - truth, axis=2)
    error = 500 * (distance.min(axis=0).mean() + distance.min(axis=1).mean())
    pairs = linear_sum_assignment(np.where(distance <= NEAR, distance, 1e3))
    right = np.count_nonzero(distance[pairs] <= NEAR)
    return float(error), 2 * right / (len(found) + len(truth))


def problem(head, cell, number):
    rng = np.random.default_rng([SEED, number, cell["sources"], cell["snr"], round(10 * cell["correlation"])])
    positions = head[0]["source_rr"]
    places = []
    while len(places) < cell["sources"]:
        place = int(rng.integers(len(positions)))
        if all(np.linalg.norm(positions[place] - positions[other]) >= APART for other in places):
            places.append(place)
    options = {"snr_db": cell["snr"], "correlation": cell["correlation"], "rng": rng}
    return positions[places], brain.simulate(*head, places, **options)


def measured(part, of_heads, cell, problems, chosen):
    solvers = {name: method for name, method in methods(part).items() if name in chosen}
    rows = {name: {"error": [], "f1": [], "number": [], "seconds": [], "confidence": []} for name in solvers}
    for number in range(problems):
        for head in of_heads:
            truth, evoked = problem(fine_head() if part == "between" else head, cell, number)
            for name, method in solvers.items():
                begun = time.process_time()
                answers, confidence = method(evoked, *head[:2], cell["sources"])
                seconds = (time.process_time() - begun) / len(answers)
                error, f1, count = min((*scores(found, truth), len(found)) for found in answers)
                row = rows[name]
                for key, value in zip(("error", "f1", "number", "seconds"), (error, f1, count, seconds), strict=True):
                    row[key].append(value)
                row["confidence"] += [] if confidence is None else [confidence]
    means = {name: {key: float(np.mean(v)) for key, v in row.items() if v} for name, row in rows.items()}
    return {**cell, "problems": len(next(iter(rows.values()))["error"]), "methods": means}


def main():
    parts = ["free", "fixed", "between", "meg", "size fixed", "size free"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=parts, help=", ".join(parts))
    parser.add_argument("--problems", type=int, default=3, help="per cell, and head")
    parser.add_argument("--methods", default="ours,gamma_map,mixed_norm,rap_music")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    mne.set_log_level("ERROR")
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for part in arguments.parts:
        all_heads = heads(part)
        if not all_heads:
            continue
        for head in all_heads:  # compiles, and makes the head known
            methods(part)["ours"](problem(head, LARGE[0], 0)[1], *head[:2], 3)
        rows = []
        for cell in {"between": BETWEEN, "size fixed": LARGE, "size free": LARGE}.get(part, CELLS):
            rows.append(measured(part, all_heads, cell, arguments.problems, arguments.methods.split(",")))
            print(part, json.dumps(rows[-1]), flush=True)
        for old, row in zip(results.get(part, []), rows, strict=False):
            if all(old[key] == row[key] for key in row if key != "methods"):
                row["methods"] = old["methods"] | row["methods"]
        results[part] = rows
        results["run"] = describe(PACKAGES)  # the last one
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
