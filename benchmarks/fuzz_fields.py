"""Small valid files of the front ends, for fuzz_files.py: spectra, images, recordings, raw photographs."""

from __future__ import annotations

import struct
from importlib.util import find_spec

import numpy as np

JCAMP = """##TITLE= quartz
##JCAMP-DX= 4.24
##DATA TYPE= INFRARED SPECTRUM
##XUNITS= 1/CM
##YUNITS= ABSORBANCE
##FIRSTX= 400
##LASTX= 407
##XFACTOR= 1
##YFACTOR= 0.001
##NPOINTS= 8
##XYDATA= (X++(Y..Y))
{table}
##END=
"""
PLAIN = "400 100 102 104 106\n404 106 106 107 105"
PACKED = "400A00KKK\n403A06K%TL"  # squeezed, differences, repetitions; the second line repeats the last value
PAIRS = "##TITLE= peaks\n##XYPOINTS= (XY..XY)\n400, 1.5; 401, 2.5\n402, 3.5\n##END=\n"


def field_files(folder, add):
    """Write one file of every kind that the front ends read; `add(name, read, beside)` makes it known."""
    from maxsparse.fields.spectra import read_spectra

    (folder / "plain.jdx").write_text(JCAMP.format(table=PLAIN))
    (folder / "packed.dx").write_text(JCAMP.format(table=PACKED))
    (folder / "pairs.jcm").write_text(PAIRS)
    (folder / "library.csv").write_text("nm,quartz,calcite\n" + "".join(f"{400 + i},{i},{i * i}\n" for i in range(8)))
    (folder / "rows.tsv").write_text("name\t400\t401\t402\nquartz\t1\t2\t3\ncalcite\t3\t\t1\n")
    for name in ("plain.jdx", "packed.dx", "pairs.jcm", "library.csv", "rows.tsv"):
        add(name, read_spectra)
    _arrays(folder, add, read_spectra)
    _recordings(folder, add)
    if find_spec("spectral"):
        _envi(folder, add, read_spectra)
    if find_spec("rawpy"):
        _raw(folder, add)


def _arrays(folder, add, read_spectra):
    import scipy.io

    values, axis = np.random.default_rng(0).random((3, 8)), np.arange(8.0)
    names = np.array(["quartz", "calcite", "clay"])
    np.savez(folder / "library.npz", spectra=values, wavelength=axis, names=names)
    cells = {"spectra": values, "wavelength": axis, "names": names.astype(object)}
    scipy.io.savemat(folder / "library.mat", cells)
    content = (folder / "library.mat").read_bytes()
    (folder / "library.mat").write_bytes(
        b"MATLAB 5.0 MAT-file".ljust(116) + content[116:]
    )  # without the time of writing
    add("library.npz", read_spectra)
    add("library.mat", read_spectra)


def _envi(folder, add, read_spectra):
    from spectral.io import envi

    from maxsparse.fields.spectra import open_cube

    rng, axis = np.random.default_rng(0), np.arange(5.0)
    values = rng.random((3, 5))
    envi.SpectralLibrary(values, {"wavelength": axis.tolist(), "spectra names": ["a", "b", "c"]}, None).save(
        str(folder / "spectra")
    )
    envi.save_image(
        str(folder / "cube.hdr"),
        rng.random((3, 4, 5)).astype(np.float32),
        metadata={"wavelength": axis.tolist()},
        force=True,
    )

    def read_cube(path):
        cube, wavelength = open_cube(path.with_suffix(".hdr"))
        return np.array(cube[:1], dtype=np.float64), wavelength

    add("spectra.hdr", read_spectra, ["spectra.sli"])
    add("spectra.sli", read_spectra, ["spectra.hdr"])
    add("cube.hdr", read_cube, ["cube.img"])
    add("cube.img", read_cube, ["cube.hdr"])


def _recordings(folder, add):
    from scipy.io import wavfile

    from maxsparse.fields.arrays import read_array, read_snapshots

    samples = (3000 * np.random.default_rng(0).standard_normal((1024, 4))).astype(np.int16)
    wavfile.write(folder / "short.wav", 8000, samples)
    wavfile.write(folder / "float.wav", 8000, samples.astype(np.float32) / 32768)
    np.save(folder / "snapshots.npy", np.exp(1j * np.arange(12.0)).reshape(3, 4))
    np.savetxt(folder / "positions.csv", np.arange(8.0).reshape(4, 2), delimiter=",")
    for name in ("short.wav", "float.wav", "snapshots.npy"):
        add(name, read_snapshots)
    add("positions.csv", read_array)


def _raw(folder, add):
    from maxsparse.stereo.capture import exposures
    from maxsparse.stereo.images import read_image

    (folder / "raw.dng").write_bytes(dng(np.random.default_rng(0).integers(0, 65535, (32, 24))))
    add("raw.dng", lambda path: (exposures([path]), read_image(path)))


def dng(mosaic):
    """Return the least DNG file that decoders accept: 16 bits, RGGB, uncompressed."""
    (h, w), data = mosaic.shape, mosaic.astype("<u2").tobytes()
    xyz = [32405, -15371, -4985, -9693, 18760, 416, 556, -2040, 10572]  # XYZ to linear sRGB, in 1/10000
    entries = [
        (254, 4, 1, 0), (256, 4, 1, w), (257, 4, 1, h), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 32803),
        (271, 2, 5, b"Test\0"), (272, 2, 5, b"Test\0"), (273, 4, 1, None), (277, 3, 1, 1), (278, 4, 1, h),
        (279, 4, 1, len(data)), (33421, 3, 2, struct.pack("<HH", 2, 2)), (33422, 1, 4, bytes([0, 1, 1, 2])),
        (0x829A, 5, 1, struct.pack("<II", 1, 50)), (50706, 1, 4, bytes([1, 4, 0, 0])), (50708, 2, 10, b"Test Test\0"),
        (50714, 3, 1, 0), (50717, 4, 1, 65535),
        (50721, 10, 9, b"".join(struct.pack("<ii", value, 10000) for value in xyz)),
        (50728, 5, 3, struct.pack("<IIIIII", *[1] * 6)), (50778, 3, 1, 21),
    ]  # fmt: skip
    start, extra = 8 + 2 + 12 * len(entries) + 4, b""
    long = [value + b"\0" * (len(value) % 2) for *_, value in entries if isinstance(value, bytes) and len(value) > 4]
    directory = struct.pack("<H", len(entries))
    for tag, kind, count, value in entries:
        value = start + sum(map(len, long)) if value is None else value
        if isinstance(value, int):
            field = struct.pack("<HH", value, 0) if kind == 3 else struct.pack("<I", value)
        elif len(value) <= 4:
            field = value.ljust(4, b"\0")
        else:
            field, extra = struct.pack("<I", start + len(extra)), extra + value + b"\0" * (len(value) % 2)
        directory += struct.pack("<HHI", tag, kind, count) + field
    return b"II*\0" + struct.pack("<I", 8) + directory + b"\0\0\0\0" + extra + data
