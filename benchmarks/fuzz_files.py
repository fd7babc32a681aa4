"""Small valid files of every kind that the package reads, and ways to damage them; used by benchmarks/fuzz.py."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from fuzz_fields import field_files

import maxsparse as ms

STRANGE = (
    None,
    True,
    -1,
    0,
    3,
    10**12,
    10**30,
    1e308,
    -0.5,
    "",
    "x",
    "residual",
    "os.system",
    [],
    [1],
    {},
    {"a": 1},
    [[]],
)
NUMBERS = (b"1000000000000", b"-1", b"0", b"99999999999999999999999", b"1e308", b"NaN", b"Infinity", b"null", b"[[[[[[")


class Good(NamedTuple):
    """A good file: its bytes, what reads it, and the files that must stand beside it."""

    content: bytes
    read: Callable[[Path], Any]
    beside: dict[str, bytes]


def seeds(folder):
    """Write a small good file of every kind, always the same bytes; return {name: Good}."""
    made = {}

    def add(name, read, beside=()):
        files = {other: (folder / other).read_bytes() for other in beside}
        made[name] = Good((folder / name).read_bytes(), read, files)

    Phi = ms.dictionaries.gaussian(4, 8, rng=0)
    _arrays(folder, Phi, add)
    ms.SparseRecoverer(Phi, budget="fast").save(folder / "recoverer.safetensors")
    add("recoverer.safetensors", ms.load)
    _networks(folder, Phi, add)
    _photographs(folder, np.random.default_rng(0), add)
    field_files(folder, add)
    return made


def _arrays(folder, Phi, add):
    import pyarrow
    import pyarrow.parquet
    import scipy.io
    import zarr

    from maxsparse.files import read_array

    np.save(folder / "a.npy", Phi)
    np.savez(folder / "a.npz", Phi=Phi, Y=Phi.T)
    np.savez_compressed(folder / "b.npz", Phi=Phi)
    np.savetxt(folder / "a.csv", Phi, delimiter=",")
    for name, packed in (("a.mat", False), ("b.mat", True)):
        scipy.io.savemat(folder / name, {"Phi": Phi}, do_compression=packed)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + content[116:])  # without the time of writing
    columns = {f"c{j}": column for j, column in enumerate(Phi.T)}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "a.parquet", compression="snappy")
    lists = {"Phi": pyarrow.array(Phi.tolist())}
    pyarrow.parquet.write_table(pyarrow.table(lists), folder / "b.parquet", compression="none")
    for name in ("a.npy", "a.npz", "b.npz", "a.csv", "a.mat", "b.mat", "a.parquet", "b.parquet"):
        add(name, read_array)
    zarr.save_array(folder / "a.zarr", Phi)
    inside = ("a.zarr/zarr.json", "a.zarr/c/0/0")
    add(inside[0], lambda path: read_array(path.parent), [inside[1]])
    add(inside[1], lambda path: read_array(path.parents[2]), [inside[0]])


def _networks(folder, Phi, add):
    from maxsparse import networks, training
    from maxsparse.networks import storage
    from maxsparse.training.checkpoint import checkpoint_path, read_checkpoint

    network = networks.build("residual", Phi, width=4, depth=2, rng=0)
    networks.save(network, folder / "network.safetensors", arrays={"Phi": Phi}, about={"minutes": 1})
    add("network.safetensors", networks.load)
    ms.SparseRecoverer(Phi, network=network).save(folder / "trained.safetensors")
    add("trained.safetensors", ms.load)

    class Stop(BaseException):
        pass

    def stop(report):
        if len(report.history) == 2:
            raise Stop

    output = folder / "run.safetensors"
    try:
        training.fit(
            Phi, sparsity=1, samples=4096, settings=training.PRESETS["modern"].but(batch_size=64, rounds=4), rng=0,
            hyperparameters={"width": 4, "depth": 2}, output=output, callback=stop, n_threads=1,
        )  # fmt: skip
    except Stop:
        path = checkpoint_path(output)
        tensors, header = read_checkpoint(path)
        header["run"]["report"]["seconds"] = 1.0
        storage.write(path, tensors, header)
        add(path.name, lambda path: _resume(path.with_name(output.name)))


def _resume(output):
    """Go on with a run, up to its first step: from there on it is a training like any other."""
    from maxsparse.training import loop, resume

    with mock.patch.object(loop, "_loop", return_value=None):
        return resume(output, n_threads=1)


def _photographs(folder, rng, add):
    import cv2
    import OpenEXR
    from PIL import Image

    from maxsparse.stereo.images import read_image
    from maxsparse.stereo.readers import photographs, read_lights
    from maxsparse.stereo.reading_network.store import bundled_paths, load_weights

    np.savetxt(folder / "lights.txt", ms.stereo.hemisphere_lights(6, rng=0))
    add("lights.txt", read_lights)
    (folder / "filenames.txt").write_text("001.png\n002.png\n")
    add("filenames.txt", lambda path: _inside(photographs(path.parent), path.parent))
    (folder / "stereo.safetensors").write_bytes(bundled_paths()[0].read_bytes())
    add("stereo.safetensors", load_weights)
    picture = rng.integers(0, 255, (9, 7, 3)).astype(np.uint8)
    for name in ("a.png", "a.jpg", "a.bmp", "a.tiff", "a.hdr", "a.pfm"):
        stored = picture.astype(np.float32) / 255 if name in ("a.hdr", "a.pfm") else picture
        (folder / name).write_bytes(cv2.imencode(Path(name).suffix, stored)[1].tobytes())
        add(name, read_image)
    (folder / "b.png").write_bytes(cv2.imencode(".png", picture.astype(np.uint16) * 200)[1].tobytes())
    add("b.png", read_image)
    Image.fromarray(picture).save(folder / "a.tga")
    add("a.tga", read_image)
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    with OpenEXR.File(header, {"RGB": picture.astype(np.float32)}) as stored:
        stored.write(str(folder / "a.exr"))
    add("a.exr", read_image)


def _inside(paths, folder):
    """Fail where a listing leads out of its folder."""
    outside = [path for path in paths if path.resolve().parent != folder.resolve() and not path.is_symlink()]
    if outside:
        raise AssertionError(f"{outside[0]} is outside {folder}")


def make(number, made, seed):
    """Return the name and the bytes of input `number`."""
    rng = np.random.default_rng([seed, number])
    names = sorted(made)
    name = names[number % len(names)]
    if name.endswith("safetensors") and rng.random() < 0.05:
        return name, hostile(rng)
    if name.endswith(("safetensors", "json")) and rng.random() < 0.5:
        return name, forged(rng, name, made[name].content)
    return name, mutate(rng, made[name].content, made[names[int(rng.integers(len(names)))]].content)


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


def forged(rng, name, content):
    """Put strange values into the JSON of a whole file, and leave out the checksum that would tell."""
    if name.endswith("json"):
        return json.dumps(_strange(rng, json.loads(content))).encode()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    held = header.pop("__metadata__", {})
    for key, text in held.items():
        if text.startswith("{"):
            about = json.loads(text)
            about.pop("sha256", None)
            held[key] = json.dumps(_strange(rng, about))
    if rng.random() < 0.2:
        header = _strange(rng, header)
    text = json.dumps({"__metadata__": held, **header} if isinstance(header, dict) else header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def _strange(rng, value):
    """Return plain JSON with one to three of its values replaced, or left out."""
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(value))
        if not places:
            return value
        holder, key = places[int(rng.integers(len(places)))]
        if rng.random() < 0.1:
            del holder[key]
        else:
            holder[key] = json.loads(json.dumps(STRANGE[int(rng.integers(len(STRANGE)))]))
    return value


def _places(value):
    """List (dict or list, key) of everything inside plain JSON."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def hostile(rng):
    """Make a safetensors file whose JSON is hostile: deep nesting, NaN, names of code, sizes without end."""
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
