"""From result files to one labelled dataset, and to the files of other programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradstep.errors import InvalidInput
from gradstep.problem import CONVENTION
from gradstep.sweeps.design import Axis, Design
from gradstep.sweeps.manifest import manifest_of
from gradstep.sweeps.statistics import student_z
from gradstep.sweeps.store import RESULT_VERSION, Store
from gradstep.sweeps.task import Task
from gradstep.theory.prediction import QUANTITIES

if TYPE_CHECKING:
    import xarray

__all__ = ["Status", "collect", "save", "status"]

#: What each quantity is measured in, and what it means.
_MEANING = {
    "test_error": ("label variance", "E (f_hat - f*)^2 over fresh inputs, label noise not included"),
    "train_error": ("label variance", "mean square residual on the labels of the ridge fit"),
    "train_loss": ("label variance", "train_error + (ridge / n) |b|^2"),
    "alignment": ("1", "overlap of the spike direction with the teacher"),
    "spike_strength": ("1", "operator norm of the rank-one part of the step"),
    "bulk_variance": ("1", "mean squared norm of a row off the spike direction"),
    "degrees_of_freedom": ("1", "trace of the hat matrix of the ridge fit"),
}
FORMATS = (".nc", ".csv", ".parquet")


def collect(folder: Path | str) -> xarray.Dataset:
    """Collect the results in a directory, finished or not.

    Parameters
    ----------
    folder : path
        Of a sweep.

    Returns
    -------
    xarray.Dataset
        Dimensions: one an axis, in the order of the design, then ``seed``. For each quantity ``q``: ``q`` (every seed's
        value), ``q_mean``, ``q_standard_error``, ``q_theory`` and ``q_z`` (Student's t on the normal scale);
        ``seeds_done``, and ``seed_number``. What is not finished is nan. Attributes: convention, design, versions.

    Raises
    ------
    InvalidInput
        If the directory holds no sweep, or xarray is not installed.
    """
    try:
        import xarray
    except ImportError:
        raise InvalidInput("collect", str(folder), "an installation with gradstep[sweeps]") from None

    folder = Path(folder)
    design, store = manifest_of(folder), Store(folder)
    penalties = design.penalties
    most = design.seeds
    values = np.full((design.points, most, len(QUANTITIES), penalties), np.nan)
    theory = {name: np.full((design.points, penalties), np.nan) for name in (*QUANTITIES, "residual")}
    numbers = np.full((design.points, most), -1, dtype=np.int64)
    present = set(store.names())
    for point in range(design.points):
        if design.theory and (found := store.read(design.theory_task(point))) is not None:
            for name in theory:
                theory[name][point] = np.array(found[name], dtype=np.float64)
        for seed, task in _of_point(design, store, point, present):
            measured = store.read(task)
            if measured is None:
                continue
            while seed >= numbers.shape[1]:
                room = numbers.shape[1]  # doubles
                numbers = np.pad(numbers, ((0, 0), (0, room)), constant_values=-1)
                values = np.pad(values, ((0, 0), (0, room), (0, 0), (0, 0)), constant_values=np.nan)
            numbers[point, seed] = task.seed
            values[point, seed] = [list(map(float, measured[name])) for name in QUANTITIES]
    used = max(most, int(np.flatnonzero((numbers >= 0).any(axis=0)).max(initial=-1)) + 1)
    by_name = {name: np.moveaxis(values[:, :used, k], 1, -1) for k, name in enumerate(QUANTITIES)}
    dataset: xarray.Dataset = _dataset(xarray, design, numbers[:, :used], by_name, theory)
    if design.dtype == "float32" and design.seeds and (cost := store.read(design.precision_task())) is not None:
        dataset.attrs["float32_relative_error"] = json.dumps(cost)
    return dataset


def _of_point(design: Design, store: Store, point: int, present: set[str]) -> Iterator[tuple[int, Task]]:
    """Yield the tasks of a point that are present, with their places: seeds of the design, then those added."""
    index, last = 0, design.seeds
    # Seeds on demand come in rounds that at most double their number: a gap as long as all before ends the search.
    while index < 2 * last:
        task = design.simulation_task(point, index)
        if store.path(task).name in present:
            last = max(last, index + 1)
            yield index, task
        index += 1


def _dataset(xarray: Any, design: Design, numbers: Any, values: Any, theory: Any) -> Any:
    names = tuple(axis.dimension for axis in design.outer_axes)
    path = design.path
    order = tuple(axis.dimension for axis in design.axes)

    def place(array: Any, *, seeds: bool, by_penalty: bool = True) -> Any:
        """Unfold the points, drop or name the penalties, and bring the axes into the design's order."""
        dimensions = list(names)
        shape = design.shape
        if by_penalty and path is not None:
            dimensions.append(path.dimension)
            shape = (*shape, len(path))
        elif by_penalty:
            array = array[:, 0]
        if seeds:
            dimensions.append("seed")
            shape = (*shape, array.shape[-1])
        labelled = xarray.DataArray(array.reshape(shape), dims=dimensions)
        wanted = [d for d in order if d in dimensions] + (["seed"] if seeds else [])
        return labelled.transpose(*wanted)

    dataset = xarray.Dataset()
    done = (numbers >= 0).sum(axis=-1)
    for name in QUANTITIES:
        unit, meaning = _MEANING[name]
        mean, error, count = _mean_and_error(values[name])
        parts = {
            name: (place(values[name], seeds=True), meaning),
            f"{name}_mean": (place(mean, seeds=False), f"mean over seeds: {meaning}"),
            f"{name}_standard_error": (place(error, seeds=False), f"standard error of the mean: {meaning}"),
            f"{name}_theory": (place(theory[name], seeds=False), f"prediction: {meaning}"),
        }
        z = student_z(theory[name], mean, error, count)
        parts[f"{name}_z"] = (place(z, seeds=False), "distance of mean and prediction, standard normal if right")
        for label, (array, text) in parts.items():
            if (label in (name, f"{name}_mean", f"{name}_standard_error") and not design.seeds) or (
                label == f"{name}_theory" and not design.theory
            ):
                continue
            if label == f"{name}_z" and not (design.seeds and design.theory):
                continue
            array.attrs = {"units": "1" if label.endswith("_z") else unit, "long_name": text}
            dataset[label] = array
    if design.theory:
        dataset["theory_residual"] = place(theory["residual"], seeds=False)
        dataset["theory_residual"].attrs = {"units": "1", "long_name": "true residual of the solved equations"}
    if design.seeds:
        dataset["seeds_done"] = place(done, seeds=False, by_penalty=False)
        dataset["seed_number"] = place(numbers, seeds=True, by_penalty=False)
        dataset["seed_number"].attrs = {"long_name": "seed of each network; -1 where there is none"}
    for axis in design.axes:
        dataset = dataset.assign_coords(_coordinates(axis))
    packages = {name: version(name) for name in ("gradstep", "numpy", "scipy")}
    dataset.attrs = {
        "title": "one gradient step: theory and simulation",
        "convention": CONVENTION,
        "design": json.dumps(design.to_dict(), sort_keys=True),
        "result_version": RESULT_VERSION,
        **{f"{name}_version": number for name, number in packages.items()},
    }
    return dataset


def _mean_and_error(values: Any) -> tuple[Any, Any, Any]:
    """Return mean, standard error and number over the seeds that have a value: what is missing or undefined is nan."""
    known = ~np.isnan(values)
    count = known.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(count > 0, np.where(known, values, 0.0).sum(axis=-1) / count, np.nan)
        rest = np.where(known, values - mean[..., None], 0.0)
        error = np.where(count > 1, np.sqrt((rest**2).sum(axis=-1) / (count - 1) / count), np.nan)
    return mean, error, count


def _coordinates(axis: Axis) -> dict[str, Any]:
    """Return the labels of an axis: numbers where all its values are, otherwise their text."""
    found: dict[str, Any] = {}
    for position, name in enumerate(axis.names):
        labels = [_label(value[position]) for value in axis.values]
        if not all(isinstance(label, int | float) for label in labels):
            labels = [str(label) for label in labels]
        # A zipped axis has no single label: its parameters are coordinates along it.
        found[name] = labels if len(axis.names) == 1 else (axis.dimension, labels)
    return found


def _label(value: Any) -> float | int | str:
    if isinstance(value, dict) and set(value) == {"coefficient", "exponent"}:
        if value["exponent"] == 0:
            return float(value["coefficient"])
        return f"{float(value['coefficient'])!r}*N**{float(value['exponent'])!r}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf if value == "inf" else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return value


def save(dataset: xarray.Dataset, path: Path) -> None:
    """Write a dataset as netCDF, or as a table (CSV, Parquet) with one row a point.

    Parameters
    ----------
    dataset : xarray.Dataset
        Of `collect`.
    path : Path
        Ends in ``.nc``, ``.csv`` or ``.parquet``. Appears only when it is whole. Tables have means, errors, theory and
        z-scores; netCDF has every seed too.

    Raises
    ------
    InvalidInput
        On another ending, or a path that cannot be written.
    """
    if path.suffix not in FORMATS:
        raise InvalidInput("out", str(path), f"a file that ends in {', '.join(FORMATS)}")
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        if path.suffix == ".nc":
            dataset.to_netcdf(temporary, engine="h5netcdf")
        else:
            points = dataset.drop_dims("seed", errors="ignore")
            # Without an axis there is one row.
            table = points.to_dataframe().reset_index() if points.sizes else points.expand_dims("point").to_dataframe()
            if path.suffix == ".csv":
                table.to_csv(temporary, index=False)
            else:
                table.to_parquet(temporary, index=False)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InvalidInput("out", str(path), f"a file that can be written ({error.strerror})") from None


class Status(dict[str, Any]):
    """Counts of a sweep's directory: ``points``, ``seeds``, ``tasks``, ``done``, ``missing``, ``added``, ``aside``."""


def status(folder: Path | str) -> Status:
    """Count what is finished in a directory, by its files' names (`collect` checks what is in them).

    Raises
    ------
    InvalidInput
        If the directory holds no sweep.
    """
    folder = Path(folder)
    design, store = manifest_of(folder), Store(folder)
    present = set(store.names())
    done = sum(store.path(task).name in present for _, task in design.tasks())
    aside = sum(1 for _ in folder.rglob("*.damaged"))
    return Status(
        points=design.points * design.penalties,
        seeds=design.seeds,
        tasks=design.task_count,
        done=done,
        missing=design.task_count - done,
        added=len(present) - done,
        aside=aside,
    )
