"""Damaged and hostile files: nothing but clear errors, and never more memory than is allowed.

    python benchmarks/fuzz.py --inputs 200000

Every input is a whole file, mutated from a small good one (bits, bytes, lengths, numbers in headers, splices), drawn
from its number. Inputs run in child processes that may not take more than ``--megabytes`` over what they start with,
so that a crash of a decoder or a header that is believed shows. A file that is read without complaint counts as
accepted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "fuzz.json"
CLEAR = (ValueError, FileNotFoundError)
MARKER = "fuzz-was-here"  # a file that code in an input would have to make
NUMBERS = (b"1000000000000", b"-1", b"0", b"99999999999999999999999", b"1e308", b"NaN", b"Infinity", b"null", b"[[[[[[")


def seeds(folder):
    """Write a small good file of every kind; return {name: (bytes, reader)}."""
    from maxsparse.files import read_array

    rng = np.random.default_rng(0)
    Phi = ms.dictionaries.gaussian(4, 8, rng=0)
    made = {}

    def add(name, reader):
        made[name] = ((folder / name).read_bytes(), reader)

    np.save(folder / "a.npy", Phi)
    np.savez(folder / "a.npz", Phi=Phi, Y=Phi.T)
    np.savez_compressed(folder / "b.npz", Phi=Phi)
    np.savetxt(folder / "a.csv", Phi, delimiter=",")
    import scipy.io

    scipy.io.savemat(folder / "a.mat", {"Phi": Phi})
    scipy.io.savemat(folder / "b.mat", {"Phi": Phi}, do_compression=True)
    for name in ("a.npy", "a.npz", "b.npz", "a.csv", "a.mat", "b.mat"):
        add(name, read_array)
    ms.SparseRecoverer(Phi, budget="fast").save(folder / "recoverer.safetensors")
    add("recoverer.safetensors", ms.load)
    _networks(folder, Phi, add)
    _stereo(folder, rng, add)
    return made


def _networks(folder, Phi, add):
    from maxsparse import networks, training
    from maxsparse.training.checkpoint import checkpoint_path, read_checkpoint

    network = networks.build("residual", Phi, width=4, depth=2, rng=0)
    networks.save(network, folder / "network.safetensors", arrays={"Phi": Phi}, about={"minutes": 1})
    add("network.safetensors", networks.load)

    class Stop(BaseException):
        pass

    def stop(report):
        if len(report.history) == 2:
            raise Stop

    try:
        training.fit(
            Phi, sparsity=1, samples=4096, settings=training.PRESETS["modern"].but(batch_size=64, rounds=4), rng=0,
            hyperparameters={"width": 4, "depth": 2}, output=folder / "run.safetensors", callback=stop, n_threads=1,
        )  # fmt: skip
    except Stop:
        add(checkpoint_path(folder / "run.safetensors").name, read_checkpoint)


def _stereo(folder, rng, add):
    from maxsparse.stereo.images import read_image
    from maxsparse.stereo.learned.store import bundled_path, load_weights
    from maxsparse.stereo.readers import photographs, read_lights

    np.savetxt(folder / "lights.txt", ms.stereo.hemisphere_lights(6, rng=0))
    add("lights.txt", read_lights)
    (folder / "filenames.txt").write_text("001.png\n002.png\n")
    add("filenames.txt", lambda path: _inside(photographs(path.parent), path.parent))
    if bundled_path().is_file():
        (folder / "stereo.safetensors").write_bytes(bundled_path().read_bytes())
        add("stereo.safetensors", load_weights)
    import cv2

    picture = rng.integers(0, 255, (9, 7, 3)).astype(np.uint8)
    for name in ("a.png", "a.jpg", "a.bmp", "a.tiff", "a.hdr", "a.pfm"):
        stored = picture.astype(np.float32) / 255 if name in ("a.hdr", "a.pfm") else picture
        (folder / name).write_bytes(cv2.imencode(Path(name).suffix, stored)[1].tobytes())
        add(name, read_image)
    (folder / "b.png").write_bytes(cv2.imencode(".png", picture.astype(np.uint16) * 200)[1].tobytes())
    add("b.png", read_image)
    from PIL import Image

    Image.fromarray(picture).save(folder / "a.tga")
    add("a.tga", read_image)
    try:
        import OpenEXR
    except ImportError:
        return
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    with OpenEXR.File(header, {"RGB": picture.astype(np.float32)}) as stored:
        stored.write(str(folder / "a.exr"))
    add("a.exr", read_image)


def _inside(paths, folder):
    """Fail where a listing leads out of its folder."""
    outside = [path for path in paths if path.resolve().parent != folder.resolve() and not path.is_symlink()]
    if outside:
        raise AssertionError(f"{outside[0]} is outside {folder}")


def mutate(rng, content, other):
    """Damage a file in one to four ways."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        way = int(rng.integers(8))
        size = max(1, len(data))
        # The beginning, where the headers are, is hit as often as all the rest.
        at = int(rng.integers(min(size, 200))) if rng.random() < 0.5 else int(rng.integers(size))
        if way == 0 and data:
            data[at] ^= 1 << int(rng.integers(8))
        elif way == 1 and data:
            data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))
        elif way == 2:
            data = data[:at]
        elif way == 3:
            data[at:at] = rng.bytes(int(rng.integers(1, 20)))
        elif way == 4:
            data[at : at + int(rng.integers(1, 40))] = b""
        elif way == 5 and len(data) >= at + 8:
            length = int(rng.choice([2, 4, 8]))
            value = int(rng.choice([2**15, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1])) % 2 ** (8 * length)
            data[at : at + length] = value.to_bytes(length, str(rng.choice(["little", "big"])))
        elif way == 6:
            found = list(re.finditer(rb"-?\d+", bytes(data)))
            if found:
                match = found[int(rng.integers(len(found)))]
                data[match.start() : match.end()] = NUMBERS[int(rng.integers(len(NUMBERS)))]
        elif other:
            start = int(rng.integers(len(other)))
            data[at : at + 16] = other[start : start + int(rng.integers(1, 200))]
    return bytes(data)


def hostile(rng, name, content):
    """Replace the JSON of a safetensors header whole: deep nesting, NaN, names of code, sizes without end."""
    evil = [
        "[" * 100_000,
        '{"format": NaN}',
        "1" * 10_000,
        json.dumps({"format": 1, "kind": "network", "network": "os.system", "hyperparameters": {"command": "id"}}),
        json.dumps({"format": 1, "kind": "network", "network": "residual", "about": {},
                    "hyperparameters": {"n": 10**6, "m": 10**6, "width": 10**6, "depth": 9}}),
    ]  # fmt: skip
    header = {"__metadata__": {"maxsparse": evil[int(rng.integers(len(evil)))], "format": "pt"}}
    if rng.random() < 0.5:
        header["Phi"] = {"dtype": "F64", "shape": [10**6, 10**6], "data_offsets": [0, 8 * 10**12]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(64)


def make(number, made):
    """Return the name and the bytes of input `number`."""
    rng = np.random.default_rng([20, number])
    names = sorted(made)
    name = names[number % len(names)]
    if name.endswith("safetensors") and rng.random() < 0.05:
        return name, hostile(rng, name, made[name][0])
    return name, mutate(rng, made[name][0], made[names[int(rng.integers(len(names)))]][0])


def run_piece(numbers, made, folder, megabytes, report):
    """Read some inputs in this process, under the limit; write one line per input that did something unclear."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20,) * 2)
    os.chdir(folder)
    counts = Counter()
    with report.open("a") as stream:
        for number in numbers:
            name, content = make(number, made)
            path = folder / name
            path.write_bytes(content)
            stream.write(f"at {number} {name}\n")  # so that a crash shows where it was
            stream.flush()
            try:
                made[name][1](path)
                counts[f"{name} accepted"] += 1
            except CLEAR as error:
                counts[f"{name} refused"] += 1
                if not str(error).strip():
                    stream.write(f"unclear {number} {name}: no message\n")
            except BaseException as error:
                stream.write(f"unclear {number} {name}: {type(error).__name__}: {str(error)[:200]!r}\n")
        counts["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stream.write("done " + json.dumps(counts) + "\n")


def fuzz(inputs, megabytes=1024, piece=1000, first=0):
    """Run `inputs` inputs; return counts, and what was unclear."""
    counts, unclear, peak = Counter(), [], 0
    with tempfile.TemporaryDirectory() as base:
        good = Path(base, "good")
        good.mkdir()
        made = seeds(good)
        begun_with = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for start in range(first, first + inputs, piece):
            numbers = range(start, min(start + piece, first + inputs))
            report = Path(base, "report")
            report.write_text("")
            folder = Path(tempfile.mkdtemp(dir=base))
            child = os.fork()
            if child == 0:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders complain on standard error
                try:
                    run_piece(numbers, made, folder, megabytes, report)
                finally:
                    os._exit(0)
            status = os.waitpid(child, 0)[1]
            lines = report.read_text().splitlines()
            unclear += [line for line in lines if line.startswith("unclear")]
            done = [json.loads(line[5:]) for line in lines if line.startswith("done")]
            if status or not done:
                unclear.append(f"crash ({status}) {lines[-1] if lines else 'before the first input'}")
            else:
                peak = max(peak, done[0].pop("peak"))
                counts.update(done[0])
            stray = {path.name for path in folder.iterdir()} - set(made)
            if stray or Path(MARKER).exists():
                unclear.append(f"files appeared: {sorted(stray)}")
            print(f"{numbers[-1] + 1 - first} inputs, {len(unclear)} unclear", file=sys.stderr, flush=True)
    return counts, unclear, (peak - begun_with) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--megabytes", type=int, default=1024, help="memory over what the process starts with")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    begun = time.process_time()
    counts, unclear, peak = fuzz(options.inputs, options.megabytes)
    kinds = sorted({key.split()[0] for key in counts})
    summary = {
        "command": f"python benchmarks/fuzz.py --inputs {options.inputs}",
        "inputs": sum(counts.values()),
        "refused": sum(value for key, value in counts.items() if key.endswith("refused")),
        "accepted": sum(value for key, value in counts.items() if key.endswith("accepted")),
        "unclear": unclear,
        "megabytes allowed": options.megabytes,
        "megabytes taken at most": round(peak, 1),
        "seconds": round(time.process_time() - begun, 1),
        "by file": {kind: {what: counts[f"{kind} {what}"] for what in ("refused", "accepted")} for kind in kinds},
    }
    options.results.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    print(f"{summary['inputs']} inputs: {summary['refused']} refused, {summary['accepted']} accepted, "
          f"{len(unclear)} unclear; {summary['megabytes taken at most']} MB")  # fmt: skip
    raise SystemExit(bool(unclear))


if __name__ == "__main__":
    main()
