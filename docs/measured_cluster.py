"""Result blocks of the page on many signals: a cluster that is disturbed, and what it costs; see fill.py."""

from __future__ import annotations

from typing import Any

from measured import table

MANY, CORES = 1e12, 1000  # signals and cores of the extrapolation
RESOLVED = 0.01  # of the workers' time: less of the command is within the errors of its own idle time


def cluster_faults(results: dict[str, Any]) -> str:
    """Return which faults a run met, and that nothing was lost."""
    found = results["faults"]
    N, chunks = found["signals"], -(-found["signals"] // found["chunk"])
    rows = []
    for name, event in found["faults"].items():
        after = f"{event['finished chunks']:,}"
        more = f"paused for {event['seconds paused']:g} s" if "seconds paused" in event else ""
        if "message" in event:
            more = f"exit code {event['exit code']}, {event['finished chunks kept']:,} chunks kept"
        rows.append([name, after, more])
    cluster, one = found["cluster"], found["one process"]
    about = (
        f"{N:,} noisy signals ({found['Phi'].replace('x', '×')}, {found['nonzeros'][0]} to {found['nonzeros'][1]} "
        f"nonzeros, {found['snr dB']} dB, `--noise {found['sigma']:g} --budget {found['budget']}`), zarr to zarr, "
        f"{found['workers']} worker processes on a machine of {found['run']['cores']} cores shared with other work. "
        f"**Signals lost: {N - cluster['signals']}. Answers that differ from those of one process: "
        f"{found['different']} of {found['signals compared']:,}**, compared bitwise. Supports that are right: "
        f"{found['right']:.2%}; mean confidence {found['mean confidence']:.3f}. "
        f"Processor time {cluster['cpu seconds']:,.0f} s on the cluster, {one['cpu seconds']:,.0f} s in one process "
        f"for those that are compared; wall time {cluster['wall seconds']:,.0f} s and "
        f"{one['wall seconds']:,.0f} s. `{found['command']}`, seed {found['seed']}."
    )
    return f"{table(['fault', f'after chunks, of {chunks:,}', ''], rows)}\n\n{about}"


def cluster_cost(results: dict[str, Any]) -> str:
    """Return the cost per million signals, and what it means for 10¹² on 1,000 cores."""
    if "cost" not in results:
        return "**Not measured yet.** `python benchmarks/cluster.py cost` does it; then `python docs/fill.py`."
    rows, more = [], []
    for row in results["cost"]["rows"]:
        work, feed = row["workers: cpu us per signal"], row["command and scheduler: cpu us per signal"]
        low, high = row["nonzeros"]
        noise = f"{results['cost']['snr dB']} dB" if row["sigma"] else "no noise"
        label = f"{row['n']}×{row['m']}, {low} to {high} nonzeros, {noise}"
        seen = feed > RESOLVED * work
        fed = f"{feed:,.0f}" if seen else f"below {RESOLVED * work:,.0f}"
        rows.append([label, f"{row['signals']:,}", f"{work:,.0f}", fed, f"{row['right']:.1%}"])
        hours = MANY * (work + max(feed, 0.0)) / 1e6 / 3600
        size = [MANY * row[f"{side} bytes per signal"] / 1e12 for side in ("input", "output")]
        more.append([label, f"{hours:,.0f}", _duration(hours / CORES),
                     f"{max(1, round(work / feed)):,}" if seen else f"over {1 / RESOLVED:.0f}",
                     f"{size[0]:,.0f} / {size[1]:,.0f} TB"])  # fmt: skip
    run = results["cost"]["run"]
    about = (
        f"Processor seconds per million signals, default budget, gaussian Φ, noise level given, zarr to zarr, "
        f"{results['cost']['workers']} workers of one thread on {run['cores']} cores shared with other work "
        f"(load {results['cost']['load']:.1f}), dask {run['versions']['distributed']}. `{results['cost']['command']}`, "
        f"seed {results['cost']['seed']}."
    )
    return "\n\n".join(
        [
            table(["", "signals measured", "workers, s", "command and scheduler, s", "right"], rows),
            about,
            f"10¹² signals from these rates (workers, command and scheduler together), on {CORES:,} such cores. One "
            "command keeps about as many workers busy as the last but one column says; for more, split the signals "
            "into several files, one command each:",
            table(["", "core-hours", f"on {CORES:,} cores", "workers per command", "input / output"], more),
        ]
    )


def _duration(hours: float) -> str:
    return f"{hours:,.0f} hours" if hours < 72 else f"{hours / 24:,.0f} days"


CLUSTER_BLOCKS = {
    "cluster-faults": ("cluster.json", cluster_faults),
    "cluster-cost": ("cluster.json", cluster_cost),
}
