"""From file to file, chunk by chunk: the same answers as in memory, in every format, and nothing lost on the way."""

import errno
import os
import shutil

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import maxsparse as ms
from maxsparse.files import read_array
from maxsparse.streaming.chunk import Chunk


@pytest.fixture(scope="module")
def model(problem):
    return ms.SparseRecoverer(problem[0], budget=300)


@pytest.fixture(scope="module")
def expected(problem, model):
    return model.recover(problem[2], easy_first=False)


def read_columns(path):
    """Read the columns of an output with the format's own library."""
    if path.suffix == ".npz":
        return np.load(path)
    if path.suffix == ".mat":
        return {name: array.ravel() for name, array in scipy.io.loadmat(path).items() if name[0] != "_" and name != "X"}
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return {name: column.to_numpy() for name, column in _table(pyarrow.parquet.read_table(path)).items()}
    import zarr

    group = zarr.open_group(path, mode="r")
    return {name: group[name][:] for name in group}


def _table(table):
    return {name: table.column(name) for name in table.column_names if name not in ("indices", "values")}


def read_coef(path, m):
    if path.suffix == ".npz":
        return scipy.sparse.load_npz(path).toarray()
    if path.suffix == ".mat":
        return scipy.io.loadmat(path)["X"].toarray()
    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path).to_pydict()
        coef = np.zeros((len(table["values"]), m))
        for row, (atoms, values) in enumerate(zip(table["indices"], table["values"], strict=True)):
            coef[row, atoms] = values
        return coef
    return read_array(path, key="coef" if path.suffix == ".zarr" else None)


@pytest.mark.parametrize("suffix", [f".{name}" for name in ms.streaming.FORMATS])
def test_every_format_holds_what_recover_returns(files, model, expected, suffix):
    path = files / f"X{suffix}"
    summary = ms.streaming.recover(model, files / "Y.npy", path, chunk=70, easy_first=False)
    np.testing.assert_array_equal(read_coef(path, 30), expected.coef)
    if suffix not in (".npy", ".csv"):
        columns = read_columns(path)
        for name in ("residual", "certified", "converged", "iterations"):
            np.testing.assert_array_equal(columns[name], getattr(expected, name), err_msg=name)
        arguments = columns["argument"]
        if suffix != ".parquet":
            arguments = np.array(["", "generic", "spark"])[arguments]
        np.testing.assert_array_equal(arguments, expected.argument)
    assert summary.certified == expected.certified.sum()
    assert summary.nonzeros == dict(zip(*np.unique((expected.coef != 0).sum(axis=1), return_counts=True), strict=True))
    assert summary.largest_residual == expected.residual.max()
    assert not (files / f"X{suffix}.parts").exists()
    # The same bytes again, whenever it is written and over whatever is there.
    before = contents(path)
    ms.streaming.recover(model, files / "Y.npy", path, chunk=70, easy_first=False)
    assert contents(path) == before


def contents(path):
    if path.is_file():
        return path.read_bytes()
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_easy_first_changes_the_time_and_not_the_answer(problem, model, expected):
    _, X, Y = problem
    result = ms.streaming.Recover(model)(Y)
    assert (result.certified >= expected.certified).all()
    np.testing.assert_array_equal(result.support[expected.certified], expected.support[expected.certified])
    np.testing.assert_allclose(result.coef[expected.certified], expected.coef[expected.certified], atol=1e-9)
    assert not (result.certified & (result.support != (X != 0)).any(axis=1)).any()
    # and OMP alone has not done it
    assert 0 < (result.iterations == 0).sum() < len(Y) or model.budget == 0


@pytest.mark.parametrize(
    "kind", ["zarr", "parquet", "parquet of lists", "fortran", "npz", "mat", "csv", "array", "memmap"]
)
def test_every_source_gives_the_same_rows(files, problem, kind):
    _, _, Y = problem
    path = files / f"signals.{'npy' if kind == 'fortran' else kind.split()[0]}"
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        group = zarr.create_group(path)
        group.create_array("Y", shape=Y.shape, dtype=Y.dtype, chunks=(37, 12))[:] = Y
        group.create_array("other", shape=(3,), dtype=float)[:] = 0.0
    elif kind.startswith("parquet"):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        lists = pa.table({"signal": pa.array(Y.tolist())})
        columns = pa.table({f"y{i}": Y[:, i] for i in range(12)})
        pyarrow.parquet.write_table(lists if "lists" in kind else columns, path, row_group_size=41)
    elif kind == "fortran":
        np.save(path, np.asfortranarray(Y))
    elif kind == "npz":
        np.savez(path, Y=Y, other=np.zeros(3))
    elif kind == "mat":
        scipy.io.savemat(path, {"Y": Y, "other": np.zeros(3)})
    elif kind == "csv":
        np.savetxt(path, Y, delimiter=",", fmt="%.17g")
    given = {"array": Y, "memmap": np.load(files / "Y.npy", mmap_mode="r")}.get(kind, path)
    source = ms.streaming.open_source(given)
    assert source.shape == Y.shape
    np.testing.assert_array_equal(source.rows(0, 300), Y)
    np.testing.assert_array_equal(source.rows(35, 90), Y[35:90])
    np.testing.assert_array_equal(source.rows(299, 300), Y[299:])
    assert source.identity is not None


def stop_after(chunks):
    """Return a runner that fails after so many chunks, and a list of the chunks it did."""
    from maxsparse.streaming.pipeline import _here

    done = []

    def runner(work, tasks, name, skip_bad):
        for index, chunk in _here(work, tasks, name, skip_bad):
            if len(done) == chunks:
                raise KeyboardInterrupt
            done.append(index)
            yield index, chunk

    return runner, done


@pytest.mark.parametrize("suffix", [".npz", ".zarr", ".parquet"])
def test_an_interrupted_run_goes_on_without_losing_or_repeating_a_chunk(files, model, suffix):
    whole, stopped = files / f"whole{suffix}", files / f"stopped{suffix}"
    ms.streaming.recover(model, files / "Y.npy", whole, chunk=40)
    first, begun = stop_after(3)
    with pytest.raises(KeyboardInterrupt):
        ms.streaming.recover(model, files / "Y.npy", stopped, chunk=40, runner=first)
    assert not stopped.exists()
    second, finished = stop_after(100)
    summary = ms.streaming.recover(model, files / "Y.npy", stopped, chunk=40, runner=second)
    assert begun == [0, 1, 2]
    assert finished == [3, 4, 5, 6, 7]
    assert summary.resumed == 120
    assert contents(stopped) == contents(whole)
    assert not (files / f"stopped{suffix}.parts").exists()


def test_a_kill_while_the_output_is_written_does_no_harm(files, model, monkeypatch):
    path = files / "X.npz"
    path.write_bytes(b"what was there before")

    def die(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("maxsparse.streaming.pipeline.sync_replace", die)
        with pytest.raises(KeyboardInterrupt):
            ms.streaming.recover(model, files / "Y.npy", path, chunk=100)
    assert path.read_bytes() == b"what was there before"
    assert (files / "X.npz.parts" / "whole.npz").exists()
    runner, done = stop_after(100)
    ms.streaming.recover(model, files / "Y.npy", path, chunk=100, runner=runner)
    assert done == []
    assert scipy.sparse.load_npz(path).shape == (300, 30)


def test_a_kill_while_an_old_zarr_folder_is_replaced_does_no_harm(files, model, monkeypatch):
    path, whole = files / "X.zarr", files / "whole.zarr"
    for output in (path, whole):
        ms.streaming.recover(model, files / "Y.npy", output, chunk=100)

    def die(folder):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("maxsparse.streaming.parts.shutil.rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            ms.streaming.recover(model, files / "Y.npy", path, chunk=100)
    assert (files / "X.zarr.parts" / "whole.old").exists()
    ms.streaming.recover(model, files / "Y.npy", path, chunk=100)
    assert contents(path) == contents(whole)
    assert not (files / "X.zarr.parts").exists()


@pytest.mark.parametrize("moment", ["a chunk", "the output"])
def test_a_full_disk_is_named_and_the_run_resumed(files, model, monkeypatch, moment):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        if moment == "the output":
            patched.setattr("maxsparse.streaming.parts._sync", full)
        else:
            patched.setattr("maxsparse.streaming.parts.Chunk.write", fail_at(2, full))
        kept = 3 if moment == "the output" else 2
        with pytest.raises(OSError, match=f"No space left on device; {kept} of 3 chunks are finished, run the same"):
            ms.streaming.recover(model, files / "Y.npy", files / "X.zarr", chunk=100)
    assert not (files / "X.zarr").exists()
    assert ms.streaming.recover(model, files / "Y.npy", files / "X.zarr", chunk=100).resumed == 100 * kept
    ms.streaming.recover(model, files / "Y.npy", files / "whole.zarr", chunk=100)
    assert contents(files / "X.zarr") == contents(files / "whole.zarr")


def fail_at(number, fail):
    """Write chunks as usual, but this one."""
    write, seen = Chunk.write, []

    def instead(chunk, path):
        seen.append(path)
        return fail() if len(seen) > number else write(chunk, path)

    return instead


@pytest.mark.parametrize("change", ["input", "touched", "model", "options", "chunk", "skip bad"])
def test_parts_of_another_run_are_not_used(files, problem, model, change):
    Phi, _, Y = problem
    runner, _ = stop_after(2)
    path = files / "X.npz"
    with pytest.raises(KeyboardInterrupt):
        ms.streaming.recover(model, files / "Y.npy", path, chunk=50, runner=runner)
    other, options = model, {"chunk": 50}
    if change == "input":
        status = os.stat(files / "Y.npy")
        np.save(files / "Y.npy", Y[::-1])
        os.utime(files / "Y.npy", ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "touched":
        os.utime(files / "Y.npy", ns=(0, 0))
    elif change == "model":
        other = ms.SparseRecoverer(Phi * 2, budget=300)
    elif change == "options":
        other = ms.SparseRecoverer(Phi, budget=100)
    elif change == "chunk":
        options["chunk"] = 60
    else:
        options["skip_bad"] = True
    with pytest.raises(ValueError, match=r"unfinished run that differs in: .*--fresh"):
        ms.streaming.recover(other, files / "Y.npy", path, **options)
    ms.streaming.recover(other, files / "Y.npy", path, fresh=True, **options)
    alone = files / "alone.npz"
    ms.streaming.recover(other, files / "Y.npy", alone, **options)
    assert path.read_bytes() == alone.read_bytes()


def test_weights_are_part_of_what_a_run_depends_on(model):
    from maxsparse.learned_sbl import bundled_later, bundled_weights

    tuned = ms.SparseRecoverer(model.Phi, budget=300)
    tuned.weights_ = bundled_weights()
    changed = ms.SparseRecoverer(model.Phi, budget=300)
    changed.weights_ = tuned.weights_._replace(first=tuned.weights_.first * 1.001)
    once, later = ms.SparseRecoverer(model.Phi, budget=300), ms.SparseRecoverer(model.Phi, budget=300)
    once.later_weights_ = ()
    second, third = bundled_later()
    later.later_weights_ = (second._replace(first=second.first * 1.001), third)
    identities = [ms.streaming.Recover(each).identity for each in (tuned, changed, once, later)]
    assert all(a != b for i, a in enumerate(identities) for b in identities[:i])
    assert identities[0] == ms.streaming.Recover(model).identity  # the same weights, bundled
    threads = ms.SparseRecoverer(model.Phi, budget=300, n_threads=1)
    assert ms.streaming.Recover(threads).identity == ms.streaming.Recover(model).identity


def test_two_runs_cannot_write_one_output(files, model):
    def second(work, tasks, name, skip_bad):
        with pytest.raises(ValueError, match="another run is writing"):
            ms.streaming.recover(model, files / "Y.npy", files / "X.npz")
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        ms.streaming.recover(model, files / "Y.npy", files / "X.npz", runner=second)


def test_strangers_in_the_folder_of_parts_are_left_alone(files, model):
    folder = files / "X.npz.parts"
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=r"holds .thesis\.tex., which maxsparse did not write"):
        ms.streaming.recover(model, files / "Y.npy", files / "X.npz")
    assert (folder / "thesis.tex").read_text() == "mine"
    (files / "mine.zarr").mkdir()
    with pytest.raises(ValueError, match="a folder that maxsparse did not write"):
        ms.streaming.recover(model, files / "Y.npy", files / "mine.zarr")


def test_a_damaged_part_is_named(files, model):
    runner, _ = stop_after(2)
    with pytest.raises(KeyboardInterrupt):
        ms.streaming.recover(model, files / "Y.npy", files / "X.npz", chunk=50, runner=runner)
    part = files / "X.npz.parts" / "000001.npz"
    content = bytearray(part.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = bytes(255 - byte for byte in content[middle : middle + 200])
    part.write_bytes(content)
    with pytest.raises(ValueError, match=r"000001.npz' is damaged .* remove it and run again"):
        ms.streaming.recover(model, files / "Y.npy", files / "X.npz", chunk=50)
    part.unlink()
    ms.streaming.recover(model, files / "Y.npy", files / "X.npz", chunk=50)


def test_bad_signals_are_named_or_skipped(files, problem, model, expected):
    Y = problem[2].copy()
    Y[123, 5], Y[200, 0] = np.nan, np.inf
    np.save(files / "bad.npy", Y)
    with pytest.raises(ValueError, match=r"bad.npy' holds NaN at row 123, column 5"):
        ms.streaming.recover(model, files / "bad.npy", files / "X.npz", chunk=50)
    shutil.rmtree(files / "X.npz.parts")
    summary = ms.streaming.recover(model, files / "bad.npy", files / "X.npz", chunk=50, skip_bad=True, easy_first=False)
    assert summary.bad == 2
    found, columns = scipy.sparse.load_npz(files / "X.npz").toarray(), np.load(files / "X.npz")
    good = np.isfinite(Y).all(axis=1)
    np.testing.assert_array_equal(found[good], expected.coef[good])
    assert not found[~good].any()
    assert np.isnan(columns["residual"][~good]).all()
    assert not columns["certified"][~good].any()


def test_solve_streams_too(files, problem):
    Phi, _, Y = problem
    options = {"sparsity": 3, "precondition": True}
    summary = ms.streaming.solve(Phi, files / "Y.npy", files / "X.npy", "omp", method_options=options, chunk=77)
    result = ms.solve(Phi, Y, "omp", **options)
    np.testing.assert_array_equal(np.load(files / "X.npy"), result.coef)
    assert summary.certified == 0


def test_no_signals_and_float32(files, problem, model):
    _, _, Y = problem
    np.save(files / "none.npy", Y[:0])
    for suffix in (".npz", ".npy", ".zarr", ".parquet", ".mat", ".csv"):
        assert ms.streaming.recover(model, files / "none.npy", files / f"X{suffix}").signals == 0
    assert scipy.sparse.load_npz(files / "X.npz").shape == (0, 30)
    single = ms.SparseRecoverer(problem[0].astype(np.float32), budget=0)
    ms.streaming.recover(single, Y.astype(np.float32), files / "single.npz")
    assert scipy.sparse.load_npz(files / "single.npz").dtype == np.float32


def test_only_the_rows_in_use_are_read(tmp_path, problem, model):
    """A sparse file that claims a terabyte costs nothing until its rows are asked for."""
    path = tmp_path / "huge.npy"
    Y = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(10**10, 12))
    Y[10**9 : 10**9 + 5] = problem[2][:5]
    del Y
    source = ms.streaming.open_source(path)
    np.testing.assert_array_equal(source.rows(10**9, 10**9 + 5), problem[2][:5])
    runner, done = stop_after(2)
    with pytest.raises(KeyboardInterrupt):
        ms.streaming.recover(model, path, tmp_path / "X.npz", runner=runner, chunk=1000)
    assert done == [0, 1]


def test_wrong_input_is_refused_before_any_work(files, problem, model):
    Y = problem[2]
    np.save(files / "T.npy", Y.T)
    np.save(files / "one.npy", Y[0])
    np.save(files / "complex.npy", Y + 1j)
    cases = {"T.npy": "T.npy' fits transposed; pass its", "one.npy": "must be 2-D", "complex.npy": "is complex"}
    for name, message in cases.items():
        with pytest.raises(ValueError, match=message):
            ms.streaming.recover(model, files / name, files / "X.npz")
    with pytest.raises(ValueError, match=r"unknown suffix .\.txt.; use one of \.npz"):
        ms.streaming.recover(model, files / "Y.npy", files / "X.txt")
    with pytest.raises(ValueError, match="write the answers to another file"):
        ms.streaming.recover(model, files / "Y.npy", files / "Y.npy")
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        ms.streaming.recover(model, files / "Y.npy", files / "no" / "X.npz")
    assert not list(files.glob("*.parts"))


def test_parts_without_a_journal_count_for_nothing(files, model):
    folder = files / "X.npz.parts"
    folder.mkdir()
    (folder / "000000.npz").write_bytes(b"left over")
    ms.streaming.recover(model, files / "Y.npy", files / "X.npz", chunk=100)
    assert scipy.sparse.load_npz(files / "X.npz").shape == (300, 30)
