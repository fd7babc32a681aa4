"""Results of the benchmarks as tables and sentences for the pages: one function per file of benchmarks/results."""

from __future__ import annotations

import math
from typing import Any


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def choose(results: dict[str, Any]) -> str:
    """Return the decision table: share of supports right for every method and problem, the best in bold."""
    methods = list(results["rows"][0]["figures"])
    rows, speeds = [], {method: [] for method in methods}
    for row in results["rows"]:
        shares = {method: row["figures"][method][0] for method in methods}
        best = max(shares.values())
        cells = [f"**{share:.2f}**" if share > best - 0.01 else f"{share:.2f}" for share in shares.values()]
        rows.append([row["problem"], *cells])
        for method in methods:
            speeds[method].append(row["figures"][method][1])
    rows.append(["processor µs per signal", *(f"{min(s):,.0f}–{max(s):,.0f}" for s in speeds.values())])
    about = (
        f"Share of signals whose support is exactly right, {results['signals']} signals each; within 0.01 of the best "
        "in bold. All methods but SparseRecoverer are given the number d of nonzeros. With noise, every method that "
        f"takes the noise level is given it, and the d best scores count. `{results['command']}`."
    )
    return f"{table(['problem', *methods], rows)}\n\n{about}"


def big_data(results: dict[str, Any]) -> str:
    """Return the cost of runs over many signals, and an extrapolation to more."""
    stream, killed, omp = results["stream"], results["killed"], results["stream, omp"]
    N = stream["signals"]
    easy = 1e6 * stream["cpu seconds"] / N
    cost = {row["d"]: row for row in results["cost"]["rows"]}
    memory = (
        f"{N / 1e6:g} million signals of the decaying 20×100 dictionary, 1 to 3 nonzeros each, float64: "
        f"{stream['certified'] / N:.0%} certified, {stream['wrong']} wrong. Peak memory "
        f"{stream['peak resident bytes'] / 1e9:.2f} GB (`maxsparse solve --method omp`: "
        f"{omp['peak resident bytes'] / 1e9:.2f} GB), processor time {stream['cpu seconds']:.0f} seconds, "
        f"{easy:.1f} µs "
        f"per signal, on a machine shared with other work. The input has {stream['input bytes'] / N:.0f} bytes per "
        f"signal, the output {stream['output bytes'] / N:.0f}. A run over {killed['signals']:,} of them was ended by "
        f"`kill -9` and resumed: it reused {killed['resumed']:,} from the first attempt and gave the same answers."
    )
    names = ["easy first", "network for all"]
    per_signal = [
        [
            str(d),
            *(f"{row[f'{name}: cpu us per signal']:,.0f}" for name in names),
            f"{row['easy first: certified']:.0%}",
        ]
        for d, row in cost.items()
    ]
    hours = {"1 to 3, a chunk at a time": easy} | {
        str(d): cost[d]["easy first: cpu us per signal"] for d in (4, 6, 8) if d in cost
    }
    more = [
        [f"d = {label}", *(f"{us * n / 3.6e9:,.0f} core-hours" for n in (1e9, 1e12))] for label, us in hours.items()
    ]
    for label, size in (("input, float64", "input bytes"), ("output, `.npz`, d from 1 to 3", "output bytes")):
        more.append([label, *(f"{stream[size] / N * n / 1e9:,.0f} GB" for n in (1e9, 1e12))])
    return "\n\n".join(
        [
            memory,
            "Processor time per signal on one thread, in batches of "
            f"{cost[1]['signals']} (d of 9 and 10: {cost[9]['signals']}); `{results['cost']['command']}`:",
            table(["d", *(f"{name}, µs" for name in names), "certified"], per_signal),
            "Extrapolated, without the time of disks and networks:",
            table(["", "10⁹ signals", "10¹² signals"], more),
        ]
    )


def int_eight(results: dict[str, Any]) -> str:
    """Return accuracy and size of a network before and after quantisation to 8 bits."""
    accuracy = {d: row for d, row in results["strict accuracy by d"].items() if max(row.values()) >= 0.005}
    rows = [[kind, *(f"{row[kind]:.3f}" for row in accuracy.values())] for kind in ("model", "int8")]
    size, shape = results["bytes"], results["hyperparameters"]
    about = (
        f"Share of 500 signals per d whose d best scores are the support; a `{results['network']}` network of depth "
        f"{shape['depth']} and width {shape['width']} for a decaying {shape['n']}×{shape['m']} dictionary, trained on "
        f"{results['training samples']:,} signals. The file has {size['int8'] / 1e6:.1f} MB instead of "
        f"{size['float32'] / 1e6:.1f} MB. `{results['command']}`."
    )
    return f"{table(['', *(f'd = {d}' for d in accuracy)], rows)}\n\n{about}"


def numerics(results: dict[str, Any]) -> str:
    """Return how every part of the package handles unusual input; messages are numbered and listed below."""
    parts = list(next(iter(results["cells"].values())))
    notes: dict[str, int] = {}
    rows = []
    for label, said in results["cells"].items():
        cells = []
        for part in parts:
            text = said[part]
            plainly = {"works": "✓", "does not apply": "–"}.get(text)
            cells.append(plainly or f"({notes.setdefault(' '.join(text.split()), len(notes) + 1)})")
        rows.append([label, *cells])
    listed = "\n".join(f"{number}. `{text}`" for text, number in notes.items())
    about = f"✓ works, – does not apply, a number: the message below. `{results['command']}`."
    return f"{table(['input', *parts], rows)}\n\n{about}\n\n{listed}"


def fuzz(results: dict[str, Any]) -> str:
    """Return how many damaged files of every kind were refused, and the memory used."""
    figures = results["by file"]
    header = ["file", "refused", "accepted"]
    rows = [[f"`{name}`", *(f"{figures[name][what]:,}" for what in header[1:])] for name in sorted(figures)]
    allowed = f"{results['megabytes allowed']:,} MB"
    versions = ", ".join(f"{name} {value}" for name, value in results["versions"].items())
    about = (
        f"{results['inputs']:,} inputs: {results['refused']:,} refused with a message, {results['accepted']:,} "
        f"accepted, **{len(results['unclear'])} with any other outcome**. No process used more than "
        f"{results['megabytes taken at most']:.0f} MB above its initial memory; {allowed} were allowed. "
        f"Seed {results['seed']}; `{results['command']}`; {versions}."
    )
    return f"{about}\n\n<details><summary>By kind of file</summary>\n\n{table(header, rows)}\n\n</details>"


def faults(results: dict[str, Any]) -> str:
    """Return how often every job was killed, and how many results are byte-identical to those of an undisturbed run."""
    rows = [[f"`{job}`", *(f"{value:,}" for value in figures.values())] for job, figures in results["jobs"].items()]
    header = ["job", *next(iter(results["jobs"].values()))]
    return f"{table(header, rows)}\n\n`{results['command']}`, seed {results['seed']}."


def fuzz_fields(results: dict[str, Any]) -> str:
    """Return the same for the files of the front ends."""
    command = results["command"]
    return fuzz(results | {"command": f"{command} --files {' '.join(sorted(results['by file']))}"})


def suite(results: dict[str, Any]) -> str:
    """Return how often the whole test suite was run, and what failed."""
    runs = results["runs"]
    failed = sum(bool(run["failures"]) for run in runs)
    commits = sorted({run["commit"][:10] for run in runs})
    passed, skipped = ([run[kind] for run in runs] for kind in ("passed", "skipped"))
    return (
        f"{len(runs)} runs in a row, with {results['workers']} workers: **{failed} with a failure**. "
        f"{min(passed):,} to {max(passed):,} tests passed in each, {min(skipped)} to {max(skipped)} were skipped. "
        f"{min(run['minutes'] for run in runs):.0f} to {max(run['minutes'] for run in runs):.0f} minutes each, the "
        f"longest beside other work. Commit {', '.join(commits)}; `python benchmarks/suite.py --runs {len(runs)}`."
    )


def long_run(results: dict[str, Any]) -> str:
    """Return the memory, threads and handles of the long run, in its first and second half."""
    shown = [name for name in results if name not in ("command", "versions", "notes")]
    rows = [[name, str(results[name]).strip("[]")] for name in shown]
    return f"{table(['', 'measured'], rows)}\n\n`{results['command']}`."


def cold_start(results: dict[str, Any]) -> str:
    """Return the processor time of first calls, now and before, with that of the kernels of one of them."""
    rows, kernels = [], []
    for name, trees in results["calls"].items():
        now, before = trees["now"], trees.get("before")
        earlier = f"{before['seconds']:.1f}" if before else ""
        rows.append([name, f"{now['seconds']:.1f}", f"{now['seconds_cached']:.1f}", str(now["functions"]), earlier])
    for kernel, seconds in results["calls"]["recover"]["now"]["kernels"].items():
        earlier = results["calls"]["recover"].get("before", {}).get("kernels", {}).get(kernel)
        kernels.append([f"`{kernel}`", f"{seconds:.1f}", "" if earlier is None else f"{earlier:.1f}"])
    loads = [trees["now"]["load"] for trees in results["calls"].values()]
    about = (
        f"Processor seconds of one thread, numba {results['machine']['versions']['numba']}, on a machine shared with "
        f"other work (load {min(loads):g} to {max(loads):g} on {results['machine']['cores']} cores), which "
        "makes these times longer. `functions` are those compiled, numba's own included. Before: the development tree "
        "in which functions were not parts of kernels. `python benchmarks/cold_start.py --before SRC`."
    )
    header = ["first call", "nothing compiled yet", "from the disk", "functions", "before"]
    return f"{table(header, rows)}\n\nThe kernels of `recover`:\n\n" + (
        f"{table(['kernel', 'seconds', 'before'], kernels)}\n\n{about}"
    )


def certificates(results: dict[str, Any]) -> str:
    """Return how many certificates were given, and how many of them were false."""
    certified, sparser = results["certified"], results["sparser than what was drawn"]
    return (
        f"{results['signals']:,} signals over {results['dictionaries']:,} dictionaries: {certified:,} certified "
        f"({results['by spark']:,} by a spark bound), **{results['false']} falsely**. "
        f"{certified - sparser - results['false']:,} of the certified answers equal the x that was drawn, {sparser:,} "
        f"are sparser. {results['right, not certified']:,} right answers are not certified, including those with equal "
        f"magnitudes. `{results['command']}`."
    )


MEASURES = ("first pass", "top d", "recovered", "certified")


def recovery(results: dict[str, Any]) -> str:
    """Return accuracy, certificates and time of the default recoverer by sparsity, one figure per dictionary."""
    tables = results["table"]
    names = [name for name in tables if "amplitudes" not in name]
    rows = []
    for cells in zip(*(tables[name] for name in names), strict=True):
        said = [" / ".join(f"{cell[what]:.3f}" for cell in cells) for what in MEASURES]
        times = [" / ".join(f"{cell[clock]:.2f}" for cell in cells) for clock in ("cpu ms", "ms")]
        rows.append([str(cells[0]["d"]), *said, str(sum(cell["false"] for cell in cells)), *times])
    header = ["d", "top d, first pass", "top d, all passes", "recovered", "certified", "false", "processor ms", "ms"]
    other = []
    for name in (name for name in tables if "amplitudes" in name):
        shares = " and ".join(f"{row['recovered']:.3f} at d = {row['d']}" for row in tables[name])
        other.append(f"{name.split(', ')[-1].removesuffix(' amplitudes')} {shares}")
    about = f"Each cell: {' / '.join(names)}. Recovered with other amplitudes: {'; '.join(other)}."
    longer = []
    for cells in zip(*(results["thorough"][name] for name in names), strict=True):
        shares, times = (
            " / ".join(f"{cell[what]:.{digits}f}" for cell in cells) for what, digits in (("recovered", 3), ("ms", 1))
        )
        false = sum(cell["false"] for cell in cells)
        longer.append(f"d = {cells[0]['d']}: {shares} in {times} ms, {false} falsely certified")
    with_budget = f'With `budget="thorough"`: {"; ".join(longer)}.'
    return f"{table(header, rows)}\n\n{about} {with_budget} `{results['command']}`."


def never_seen(results: dict[str, Any]) -> str:
    """Return in how many cells the bundled network is better than SBL and l1, without and with noise."""
    clean, noisy = results["noiseless"], results["noise"]
    gaps = [row["learned"] - row["sbl em"] for row in clean]
    sizes = sorted({(row["n"], row["m"]) for row in clean})
    wins = {
        f"{'error below' if measure == 'error' else 'recall at least'} that of {label}": sum(
            row["ours error"] < row[f"{other} error"]
            if measure == "error"
            else row["ours recall"] >= row[f"{other} recall"]
            for row in noisy
        )
        for measure in ("error", "recall")
        for other, label in (("sbl", "SBL"), ("l1", "ℓ1"))
    }
    return (
        f"On {len({(row['kind'], row['n'], row['m']) for row in clean})} dictionaries of "
        f"{len({row['kind'] for row in clean})} kinds and {len(sizes)} sizes up to {sizes[-1][0]}×{sizes[-1][1]} that "
        "the networks were not trained on, at 3 sparsities each, scores of the last pass are better than whitened SBL "
        f"(EM) in {sum(gap > 0 for gap in gaps)} of {len(gaps)} cells, equal in {sum(gap == 0 for gap in gaps)} and "
        f"worse in {sum(gap < 0 for gap in gaps)}, by {-min(gaps):.2f} at most. With noise at 30 and 20 dB, d = 2 to "
        "8, on a decaying and a gaussian 20×100 dictionary, where every method is given the noise level, of "
        f"{len(noisy)} cells: {'; '.join(f'{what} in {count}' for what, count in wins.items())}. "
        f"`{results['command']}`.\n\n" + _tuned(results["tuned"])
    )


def _tuned(rows: list[dict[str, Any]]) -> str:
    """Return accuracy with the bundled weights and with the first pass fine-tuned to the dictionary."""
    names = ("zero-shot, first pass", "tuned, first pass", "zero-shot", "tuned")
    header = ["authors' dictionary, top d", *(f"d = {row['d']}" for row in rows)]
    said = [name if "first" in name else f"{name}, all passes" for name in names]
    body = [[label, *(f"{row[name]:.3f}" for row in rows)] for label, name in zip(said, names, strict=True)]
    return (
        f"{table(header, body)}\n\nTuned: {rows[0]['minutes']:g} minutes of `fit` on one core, {rows[0]['signals']:,} "
        "signals per d. Fine-tuning improves the first pass, but the later ones were trained on the failures of the "
        "bundled first pass, so all passes together do not improve. `python benchmarks/zero_shot.py --tuned 6`."
    )


def solvers(results: dict[str, Any]) -> str:
    """Return microseconds per signal and speed ratios to the peers, with target ratios."""
    rows = []
    for name, figures in ((name, f) for group in ("omp", "sbl", "l1", "lasso") for name, f in results[group].items()):
        ratios = [
            f"{peer} {ratio:.1f}×" + (f" (target {figures['targets'][peer]:g})" if peer in figures["targets"] else "")
            for peer, ratio in figures["ratios"].items()
        ]
        rows.append([name, f"{figures['microseconds']['maxsparse']:.3g}", "; ".join(ratios)])
    return table(["problem", "µs per signal", "times as fast as"], rows)


def large(results: dict[str, Any]) -> str:
    """Return time and memory by the size of Φ, of our methods and the peers."""
    names = ["omp", "spams omp", "scikit-learn omp", "sbl", "sbl, operator", "recoverer", "recoverer, noise"]
    names += ["recoverer, many nonzeros", "celer lasso", "skglm lasso"]
    cells = {(c["n"], c["m"], c["method"]): c for c in results["cells"]}
    rows = []
    for n, m in sorted({(n, m) for n, m, _ in cells}):
        for name in names:
            cell = cells.get((n, m, name))
            if cell is None:
                continue
            right = "–" if cell["right"] is None else f"{cell['right']:.2f}"
            problem = f"{cell['nonzeros']} nonzeros" + (f", noise {cell['noise']:g}" if cell["noise"] else "")
            time, memory = f"{cell['milliseconds per signal']:.3g}", f"{cell['memory over Phi']:.1f}"
            rows.append([f"{n}×{m:,}", name, problem, str(cell["signals"]), time, memory, right])
    head = ["Φ", "method", "signals of", "in one call", "ms per signal", "memory over Φ", "supports right"]
    sets = sorted({cell["run"]["instruction sets"]["widest"] for cell in results["cells"]})
    about = (
        "Processor time on one thread, after the call that compiles; of the recoverer also after the one that prepares "
        "Φ. Memory is the most that a call holds, Φ included, the answer's coefficients not; of a small Φ, buffers "
        f"are most of it. Gaussian Φ, {', '.join(sets)}. `{results['command']}`."
    )
    return f"{table(head, rows)}\n\n{about}"


def networks(results: dict[str, Any]) -> str:
    """Return the share of the machine's matrix-multiplication rate by width, and the paper's runtime table."""
    rows = [
        [str(row["width"]), *(f"{part['share']:.0%}" for part in (row["inference"], *row["training"].values()))]
        for row in results["efficiency"]
    ]
    sizes = [f"training, batches of {int(size):,}, target 55%" for size in results["efficiency"][0]["training"]]
    about = (
        f"20 layers, {results['threads']} threads; matrix multiplication runs at {results['product_gflops']:.0f} "
        "GFLOP/s. Batches have 256 signals in the preset `modern`, 250 in `paper`."
    )
    efficiency = table(["width", "inference, target 70%", *sizes], rows)
    here, paper = results["seconds_per_signal"], results["paper_seconds_per_signal"]
    times = [
        [
            f"`{name}`",
            f"{seconds:.1e}",
            f"{here['ista'] / seconds:,.0f}",
            *([f"{paper[name]:.1e}", f"{paper['ista'] / paper[name]:,.0f}"] if name in paper else ["–", "–"]),
        ]
        for name, seconds in sorted(here.items(), key=lambda item: -item[1])
    ]
    header = ["", "seconds per signal", "times as fast as ISTA", "paper: seconds", "paper: times as fast as ISTA"]
    clock = "wall" if results["clock"] == "wall" else "processor"
    more = (
        f"{results['threads']} threads, {clock} time. Networks have their default size and are untrained, with "
        "batches of 4,096 signals; ISTA and IHT are those of this package, on 256 signals with 5 nonzeros "
        "and for at most 2,000 iterations, all of which ISTA uses. The paper does not name its machine. "
        f"`{results['command']}`."
    )
    return "\n\n".join([efficiency, about, table(header, times), more])


def accuracy(results: dict[str, Any]) -> str:
    """Return both measures of all networks and solvers by d, and how each compares with the residual network."""
    parts = []
    for amplitudes, rival in (("uniform", "residual"), ("unit", "residual-unit")):
        chosen = {label: row for label, row in results.items() if row["amplitudes"] == amplitudes}
        for measure, name in (("strict", "s-acc"), ("loose", "l-acc")):
            rows = [
                [
                    label.removesuffix("-unit"),
                    f"{row['samples'] / 1e6:.1f}" if "samples" in row else "",
                    f"{row['processor_seconds'] / 60:.0f}" if "processor_seconds" in row else "",
                    *(f"{value:.3f}" for value in row[measure]),
                ]
                for label, row in chosen.items()
            ]
            header = [f"{name}, {amplitudes}", "million signals", "minutes", *(f"d = {d}" for d in range(1, 11))]
            parts.append(table(header, rows))
        if rival in chosen:
            verdicts = [_against(label, row, chosen[rival]) for label, row in chosen.items() if label != rival]
            parts.append("\n".join(verdicts))
    return "\n\n".join(parts)


def recipes(results: dict[str, Any]) -> str:
    """Return both measures of one network after training with different settings."""
    parts = []
    for measure, name in (("strict", "s-acc"), ("loose", "l-acc")):
        rows = [
            [label.replace("-", " "), f"{row['samples']:,}", *(f"{value:.3f}" for value in row[measure][:6])]
            for label, row in results.items()
        ]
        parts.append(table([name, "signals", *(f"d = {d}" for d in range(1, 7))], rows))
    return "\n\n".join(parts)


def _against(label: str, row: dict[str, Any], residual: dict[str, Any]) -> str:
    """Return where a method is ahead of the residual network for d ≥ 2, by more than two standard errors."""
    words = []
    for measure, name in (("strict", "s-acc"), ("loose", "l-acc")):
        ahead, behind = [], []
        for d, a, b in zip(range(1, 11), row[measure], residual[measure], strict=True):
            # Loose accuracies are means over atoms too: their error is at most this.
            error = math.sqrt(a * (1 - a) / row["test_signals"] + b * (1 - b) / residual["test_signals"])
            if d >= 2 and abs(a - b) > 2 * error:
                (ahead if a > b else behind).append(d)
        places = [", ".join(map(str, where)) or "none" for where in (ahead, behind)]
        words.append(f"{name} ahead at d = {places[0]}, behind at {places[1]}")
    return f"- `{label.removesuffix('-unit')}` against `residual`: {'; '.join(words)}."


def paper_cost(results: dict[str, Any]) -> str:
    """Return what the preset paper costs on one core, and an estimate for a GPU."""
    rows = [
        [
            f"`{name}`",
            str(row["networks"]),
            f"{row['steps'] / 1e6:.1f}",
            f"{row['steps per second, one core']:.3g}",
            f"{row['core days']:.0f}",
            str(row["operations of a step"]),
            f"{row['GPU days']:.1f}",
        ]
        for name, row in results["networks"].items()
    ]
    totals = {key: sum(row[key] for row in results["networks"].values()) for key in ("core days", "GPU days")}
    header = [
        "",
        "networks",
        "million steps",
        "steps per second, one core",
        "core days",
        "operations of a step",
        "GPU days",
    ]
    about = (
        f"All networks of the preset `paper`: {totals['core days']:.0f} days of one core at the measured rates, and "
        f"about {totals['GPU days']:.0f} days of one GPU. The GPU is an estimate: it assumes "
        f"{results['seconds per operation on a GPU, assumed'] * 1e6:.0f} µs per tensor operation, the time to start "
        "it, since batches of 250 are too small to fill a GPU. Networks are independent of each other, so that several "
        f"GPUs divide the time (`--scheduler`). `stereo` has the rate of `residual`. `{results['command']}`."
    )
    return f"{table(header, rows)}\n\n{about}"


def stereo(results: dict[str, Any]) -> str:
    """Return the mean angular errors of every method on every object, then speed and memory, then other materials."""
    bunny, speed = results["bunny"], results["speed"]
    real = {name: figures for name, figures in results["real"].items() if "auto" in figures}
    methods = list(next(iter(real.values())))
    rows = [
        [
            f"rendered Bunny, {q.removeprefix('q=')} lights",
            *(f"{bunny[m][q]['mean degrees']:.2f}" if m in bunny else "–" for m in methods),
        ]
        for q in bunny["auto"]
    ]
    for name, figures in real.items():
        for key, lights in (("96 lights", "96 lights"), ("10 lights, mean of draws", "10 lights")):
            rows.append([f"DiLiGenT {name}, {lights}", *(f"{figures[m][key]:.2f}" for m in methods)])
    draws = len(bunny["auto"]["q=10"]["each draw"])
    lamps = {
        name: f"{found['distance']:.1f}" if found["determined"] else "not determined"
        for name, found in results["real"]["lamp distance"].items()
    }
    about = (
        f"Mean angular error in degrees; the Bunny: mean over {draws} draws, the objects under 10 lights: over 10, the "
        "same for every method. Distance of the lamps in widths of the picture, estimated from 96 photographs each: "
        f"{', '.join(f'{name} {said}' for name, said in lamps.items())}; *distance of the rig* is the last.\n\n"
        "End to end is the command `maxsparse stereo FOLDER -o out/`: start, load, estimate, integrate, write all. "
        f"On 256×256 pixels with {speed['lights']} lights it takes {speed['auto / rnd4, whole command']:.1f} times as "
        "long with `auto` as with `rnd4`. Loading and estimating alone takes "
        f"{speed['auto / rnd4, load and estimate']:.0f} times as long with `auto`: a fit to four readings costs almost "
        f"nothing compared with a network over all {speed['lights']}. Batched `sbl` is "
        f"{speed['python loop / batched sbl']:.0f} times as fast as a loop over pixels in Python. The whole command, "
        f"without a mask: {'; '.join(_whole(*item) for item in results['memory'].items())}."
    )
    parts = [table(["", *methods], rows), about]
    if "materials" in results:
        parts += _materials(results["materials"])
    return "\n\n".join(parts)


def _whole(size: str, figures: dict[str, Any]) -> str:
    return f"{size} pixels and lights {figures['peak GB']:.1f} GB and {figures['processor seconds']:.0f} s of one core"


def _materials(results: dict[str, Any]) -> list[str]:
    """Return the mean angular errors of auto without and with the scene's material, by scene and number of lights."""
    counts = list(next(iter(results.values())))
    rows = [
        [name, *(f"{figures[lights][which]:.2f}" for lights in counts for which in ("without", "with"))]
        for name, figures in results.items()
    ]
    header = [
        "`auto`; material",
        *(f"{lights}, {said}" for lights in counts for said in ("kept", "removed")),
    ]
    about = "Mean angular error in degrees on renders of 128×128 pixels with half a per cent of noise."
    return [table(header, rows), about]


def stereo_objects(results: dict[str, Any]) -> str:
    """Return the mean angular errors on renders of other objects."""
    objects = results["degrees"]
    first = next(iter(objects.values()))
    lights, methods = list(first), list(next(iter(first.values())))
    rows = [
        [name, *(" / ".join(f"{figures[q][method]:.2f}" for q in lights) for method in methods)]
        for name, figures in objects.items()
    ]
    about = (
        f"Mean angular error in degrees, {' / '.join(lights)}, on renders of 128×128 pixels with half a per cent of "
        "noise; pixels that every method gives a normal. That `auto` averages two networks was chosen on the first six "
        "of these objects, nothing else; on the last two, which were measured after that, nothing was. "
        f"`{results['command']}`."
    )
    return f"{table(['', *methods], rows)}\n\n{about}"


def stereo_unknown(results: dict[str, Any]) -> str:
    """Return the errors where lights are estimated from the photographs."""
    part = results["unknown"]
    columns = ["lights", "worst light", "expected", "known", "intensities unknown", "lights unknown"]
    rows = [
        [name, *(f"{row[column]:.2f}" if column in row else "" for column in columns)]
        for name, row in part["degrees"].items()
    ]
    header = [
        "",
        "lights, mean error",
        "lights, largest error",
        "lights, expected error",
        "normals, lights known",
        "normals, intensities unknown",
        "normals, lights unknown",
    ]
    about = (
        "Degrees. DiLiGenT: 96 photographs, against the calibrated lights and the measured normals; UW: against the "
        f"lights of the chrome ball. `{part['command']}`."
    )
    return f"{table(header, rows)}\n\n{about}"


def stereo_rig(results: dict[str, Any]) -> str:
    """Return the mean angular errors of auto with the bundled network and with the network fine-tuned to the rig."""
    rig = results["rig"]
    errors = rig["mean degrees"]
    rows = [[name, f"{row['bundled']:.2f}", f"{row['tuned']:.2f}"] for name, row in errors.items()]
    better = sum(row["tuned"] < row["bundled"] for row in errors.values())
    ratio = math.exp(sum(math.log(row["tuned"] / row["bundled"]) for row in errors.values()) / len(errors))
    minutes = rig["steps"] * rig["processor seconds per step"] / 60
    about = (
        f"Mean angular error of `auto` in degrees. The fine-tuned network is better in {better} of {len(errors)} "
        f"scenes; the geometric mean of the error ratios is {ratio:.2f}. {rig['steps']} steps, {minutes:.1f} minutes "
        f"of one core; seed {rig['seed']}; one draw of 10, 20 and 40 lights each. `{rig['command']}`."
    )
    return f"{table(['', 'bundled network', 'fine-tuned to the rig'], rows)}\n\n{about}"


def doa(results: dict[str, Any]) -> str:
    """Return the share of scenes in which both directions are found, by method."""
    part = results["doa"]
    methods = list(part["rows"][0]["found"])
    rows = [
        [
            f"{row['snapshots']} snapshot{'s' if row['snapshots'] > 1 else ''}, {row['snr']} dB"
            + (", coherent sources" if row["coherent"] else "")
            + ("" if row["on grid"] else ", off the grid"),
            *(f"{row['found'][method]:.3f}" for method in methods),
        ]
        for row in part["rows"]
    ]
    about = (
        f"Share of {part['trials']} scenes in which both of two sources 4° apart are found within 1°, on a grid of 1°. "
        "`sbl` and `SparseRecoverer` are given the noise level, `omp` and MUSIC the number of sources; decibels are "
        f"those of both sources together, directions within ±60°. `{part['command']}`."
    )
    return f"{table(['', *methods], rows)}\n\n{about}"


def positive(results: dict[str, Any]) -> str:
    """Return the share of non-negative signals found with and without the sign constraint."""
    part = results["positive"]
    methods = list(part["rows"][0]["found"])
    rows = [
        [f"{row['dictionary']} 20×100, d = {row['d']}", *(f"{row['found'][method]:.2f}" for method in methods)]
        for row in part["rows"]
    ]
    about = (
        f"Share of {part['signals']} non-negative signals whose d best scores are right; no noise, whitened. "
        f"`{part['command']}`."
    )
    return f"{table(['', *methods], rows)}\n\n{about}"


def nnls(results: dict[str, Any]) -> str:
    """Return the speed of batched NNLS next to SciPy's."""
    part = results["nnls"]
    rows = [
        [
            row["problem"],
            f"{row['us']:.0f}",
            f"{row['scipy us']:.0f}",
            f"{row['times faster, one core']:.1f}",
            f"{row['times faster, all threads']:.1f}",
        ]
        for row in part["rows"]
    ]
    header = ["", "µs per signal", "`scipy.optimize.nnls`, µs", "times faster, one core", "times faster, two threads"]
    return f"{table(header, rows)}\n\nProcessor time; the last column is wall time. `{part['command']}`."


def structure_speed(results: dict[str, Any]) -> str:
    """Return the time of SBL with snapshots and complex numbers, relative to plain SBL."""
    part = results["speed"]
    kinds = [kind for kind in part["rows"][0]["seconds"] if kind != "plain"]
    rows = [
        [f"{row['n']}×{row['m']}", *(f"{row['seconds'][kind] / row['seconds']['plain']:.2f}" for kind in kinds)]
        for row in part["rows"]
    ]
    about = f"Time of `sbl` relative to one real snapshot of the same size. `{part['command']}`."
    return f"{table(['', *kinds], rows)}\n\n{about}"


def bounds_budgets(results: dict[str, Any]) -> str:
    """Return what a budget proves, one line per problem and three budgets."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in results["budgets"]:
        cells.setdefault(tuple(row[name] for name in ("Phi", "n", "m", "d", "snr")), []).append(row)
    lines = []
    for (kind, n, m, d, snr), rows in cells.items():
        shown = [f"{row['lower']:.3g} / {row['lower equals upper']:.2f} / {row['optimal']:.2f}" for row in rows]
        lines.append([f"{kind} {n}×{m}, {d} nonzeros, {snr} dB", *shown, f"{rows[-1]['ms']:,.0f} ms"])
    budgets = [f"{row['budget']:,.0f} ms" for row in next(iter(cells.values()))]
    about = (
        "Mean lower bound / share of signals with lower = upper / share proven to be optimal, 20 signals each, true "
        "support given, ε three standard deviations above the noise. Last column: processor time per signal that the "
        "largest budget took. `python benchmarks/bounds.py budgets`."
    )
    return f"{table(['problem', *budgets, 'time'], lines)}\n\n{about}"


def bounds_peers(results: dict[str, Any]) -> str:
    """Return the times next to those of the peers, and whether the optima agree."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in results["peers"]:
        names = ("Phi", "n", "m", "d", "snr", "amplitudes", "peer")
        cells.setdefault(tuple(row[name] for name in names), []).append(row)
    lines = []
    for (kind, n, m, d, snr, amplitudes, peer), rows in cells.items():
        problem = f"{kind} {n}×{m}, {d} nonzeros ({amplitudes}), {snr} dB"
        proven = sum(row["peer_proven"] for row in rows)
        theirs, ours = (max(row[name] for row in rows) for name in ("peer_seconds", "seconds"))
        own = sum(row["proven"] for row in rows)
        solved = f"{proven} of {len(rows)}"
        lines.append([problem, peer, solved, f"{theirs:.3g} s", f"{own} of {len(rows)}", f"{ours:.3g} s"])
    compared = [row for row in results["peers"] if row["peer_proven"]]
    same = sum(row["same"] for row in compared)
    header = ["problem", "peer", "peer proves", "slowest", "maxsparse proves lower = upper", "slowest"]
    return f"{table(header, lines)}\n\nOptima that agree: {same} of the {len(compared)} that a peer proves."


def bounds_false(results: dict[str, Any]) -> str:
    """Return how many claims were checked and how many were false."""
    counts = results["false"]
    return (
        f"Over {counts['problems']:,} small problems there were {counts['optimal']:,} claims of an optimum, of which "
        f"{counts['false optimal']} were false, {counts['lower']:,} lower bounds above 0, of which "
        f"{counts['false lower']} were false, and {counts['false upper']} false upper bounds. In "
        f"{counts['rivals beyond the limit on terms']:,} cases a rival was excluded only because its terms exceed "
        "10⁵ ‖y‖. `python benchmarks/bounds.py false --problems 100000`."
    )


BENCHMARK_BLOCKS = {
    "doa": ("structure.json", doa),
    "positive": ("structure.json", positive),
    "nnls": ("structure.json", nnls),
    "structure-speed": ("structure.json", structure_speed),
    "bounds-budgets": ("bounds.json", bounds_budgets),
    "bounds-peers": ("bounds.json", bounds_peers),
    "bounds-false": ("bounds.json", bounds_false),
    "choose": ("choose.json", choose),
    "big-data": ("big_data.json", big_data),
    "large": ("large.json", large),
    "int-eight": ("export.json", int_eight),
    "numerics": ("numerics.json", numerics),
    "fuzz": ("fuzz.json", fuzz),
    "fuzz-fields": ("fuzz_fields.json", fuzz_fields),
    "faults": ("faults.json", faults),
    "cold-start": ("cold_start.json", cold_start),
    "long-run": ("long_run.json", long_run),
    "suite": ("suite.json", suite),
    "certificates": ("certificates.json", certificates),
    "recovery": ("recovery.json", recovery),
    "never-seen": ("zero_shot.json", never_seen),
    "solvers": ("solvers.json", solvers),
    "networks": ("networks.json", networks),
    "paper-cost": ("paper_cost.json", paper_cost),
    "accuracy": ("accuracy.json", accuracy),
    "losses": ("losses.json", recipes),
    "presets": ("presets.json", recipes),
    "stereo-accuracy": ("stereo.json", stereo),
    "stereo-objects": ("stereo_objects.json", stereo_objects),
    "stereo-rig": ("stereo.json", stereo_rig),
    "stereo-unknown": ("stereo.json", stereo_unknown),
}
