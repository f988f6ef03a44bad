"""From result files to one labelled dataset, and to the files of other programs."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import is_real
from gradstep.errors import InvalidInput, missing_extra
from gradstep.overlay import Overlay, mean_and_error
from gradstep.problem import CONVENTION
from gradstep.sizes import Proportional, at_dimension, extent, read_size
from gradstep.sweeps.design import PREDICTED, Axis, Design
from gradstep.sweeps.inventory import networks_of, take_stock
from gradstep.sweeps.manifest import manifest_of
from gradstep.sweeps.store import RESULT_VERSION, Store
from gradstep.sweeps.task import Result, Task
from gradstep.theory.prediction import QUANTITIES
from gradstep.versions import versions
from gradstep.whole_file import replace_file

if TYPE_CHECKING:
    import xarray

__all__ = ["Status", "check_collectable", "check_file", "collect", "save", "status"]

Array = NDArray[Any]

_log = logging.getLogger("gradstep")

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
#: A table of every seed's value is made up to this size in bytes, and beyond it up to so many times what is there.
_LARGE_TABLE, _FILL = 2**30, 4
#: Parameters that may be multiples of the input dimension.
_PROPORTIONAL = ("width", "n_step", "n", "ridge")
FORMATS = (".nc", ".csv", ".parquet")


def check_collectable() -> None:
    """Refuse what only an installation with xarray can do, before any work."""
    if find_spec("xarray") is None:
        raise missing_extra("collect", "sweeps")


def collect(folder: Path | str, *, every_seed: bool = True) -> xarray.Dataset:
    """Collect the results in a directory, finished or not.

    Parameters
    ----------
    folder : path
        Directory of a sweep.
    every_seed : bool
        Keep every seed's value beside the statistics. They are left out, with a message, where their table (points
        times the largest number of seeds) would be large and mostly empty, as after ``until_se`` at uneven points.

    Returns
    -------
    xarray.Dataset
        Dimensions: one an axis, in the order of the design, then ``seed``. For each quantity ``q``: ``q`` (every seed's
        value), ``q_mean``, ``q_standard_error``, ``q_theory`` and ``q_z`` (of `gradstep.overlay.Overlay`);
        ``seeds_done``, and ``seed_number``. What is not finished is nan; where a penalty of a path has no prediction,
        ``theory_failure`` says why. Attributes: convention, design, versions, and how many of the design's tasks are
        done: ``tasks``, ``tasks_done``, ``tasks_damaged`` (files set aside now because they were not whole).

    Raises
    ------
    InvalidInput
        If the directory holds no sweep, or xarray is not installed.
    """
    check_collectable()
    import xarray

    folder = Path(folder)
    design, store = manifest_of(folder), Store(folder)
    gathered = _gather(design, store, every_seed)
    parts = [_coordinates(axis, _dimension(design)) for axis in design.axes]
    dataset = xarray.Dataset(_variables(xarray, design, gathered), {k: v for part in parts for k, v in part.items()})
    dataset.attrs = {
        "title": "one gradient step: theory and simulation",
        "convention": CONVENTION,
        "design": json.dumps(design.to_dict(), sort_keys=True),
        "result_version": RESULT_VERSION,
        "tasks": design.task_count,
        "tasks_done": gathered.tasks_done,
        "tasks_damaged": len(gathered.damaged),
        **{f"{name}_version": number for name, number in versions().items()},
    }
    if gathered.precision_cost is not None:
        dataset.attrs["float32_relative_error"] = json.dumps(gathered.precision_cost)
    return dataset


@dataclass
class _Gathered:
    """Results as they are read: arrays over (points, penalties), and each point's networks as they are there."""

    theory: dict[str, Array]
    failure: Array
    #: Mean, standard error and number of networks, each over (quantities, points, penalties).
    measured: Array
    #: Networks of each point.
    done: Array
    #: Places and seeds of each point's networks, and their values of shape (networks, quantities, penalties).
    networks: list[tuple[list[int], list[int], Array]] | None
    precision_cost: Result | None = None
    #: How many of the design's tasks have a result, and the names of files that were not whole.
    tasks_done: int = 0
    damaged: set[str] = field(default_factory=set)


def _gather(design: Design, store: Store, every_seed: bool) -> _Gathered:
    shape = (design.points, design.penalties)
    found = _Gathered(
        theory={name: np.full(shape, np.nan) for name in (*QUANTITIES, "residual")},
        failure=np.full(shape, "", dtype=object),
        measured=np.full((3, len(QUANTITIES), *shape), np.nan),
        done=np.zeros(design.points, dtype=np.int64),
        networks=[] if every_seed and design.seeds else None,
    )
    present = set(store.names())

    def read(task: Task) -> Result | None:
        result, name = store.read(task), store.path(task).name
        if result is None and name in present:
            found.damaged.add(name)
        return result

    for point in range(design.points):
        for task in design.single_tasks(point):
            if (result := read(task)) is None:
                continue
            found.tasks_done += 1
            if task.measure != PREDICTED:
                found.precision_cost = result
                continue
            for name, values in found.theory.items():
                values[point] = np.array(result[name], dtype=np.float64)
            found.failure[point] = result.get("failure", "")
        places: list[int] = []
        seeds: list[int] = []
        networks: list[Array] = []
        for place, task, _ in networks_of(design, store, point, present):
            if (result := read(task)) is not None:
                places.append(place)
                seeds.append(task.seed)
                networks.append(np.array([result[name] for name in QUANTITIES], dtype=np.float64))
        values = np.array(networks).reshape(len(networks), len(QUANTITIES), design.penalties)
        found.measured[:, :, point] = mean_and_error(values)
        found.done[point] = len(networks)
        found.tasks_done += sum(place < design.seeds for place in places)
        if found.networks is not None:
            found.networks.append((places, seeds, values))
    return found


def _variables(xarray: Any, design: Design, found: _Gathered) -> dict[str, Any]:
    """Return the labelled arrays of the dataset."""
    outer = tuple(axis.dimension for axis in design.outer_axes)
    path = (design.path.dimension,) if design.path is not None else ()
    order = tuple(axis.dimension for axis in design.axes)

    def place(array: Array, extra: tuple[str, ...], text: str, unit: str | None = None) -> Any:
        """Unfold the points, name the rest, and bring the axes into the design's order."""
        dimensions = (*outer, *extra)
        labelled = xarray.DataArray(array.reshape((*design.shape, *array.shape[1:])), dims=dimensions)
        labelled = labelled.transpose(*(d for d in (*order, "seed") if d in dimensions))
        labelled.attrs = {"long_name": text} if unit is None else {"units": unit, "long_name": text}
        return labelled

    def by_penalty(array: Array, text: str, unit: str | None = "1") -> Any:
        return place(array if path else array[:, 0], path, text, unit)

    variables: dict[str, Any] = {}
    dense = _dense(design, found)
    for k, name in enumerate(QUANTITIES):
        unit, meaning = _MEANING[name]
        overlay = Overlay(found.theory[name], *found.measured[:, k])
        if dense is not None:
            values = dense[1][name]
            variables[name] = place(values if path else values[:, 0], (*path, "seed"), meaning, unit)
        if design.seeds:
            variables[f"{name}_mean"] = by_penalty(overlay.mean, f"mean over seeds: {meaning}", unit)
            error = by_penalty(overlay.standard_error, f"standard error of the mean: {meaning}", unit)
            variables[f"{name}_standard_error"] = error
        if design.theory:
            variables[f"{name}_theory"] = by_penalty(overlay.theory, f"prediction: {meaning}", unit)
        if design.seeds and design.theory:
            text = "distance of mean and prediction, standard normal if right"
            variables[f"{name}_z"] = by_penalty(overlay.z, text)
    if design.theory:
        residual = found.theory["residual"]
        variables["theory_residual"] = by_penalty(residual, "true residual of the solved equations")
        if found.failure.any():
            reasons = found.failure.astype(str)
            variables["theory_failure"] = by_penalty(reasons, "why there is no prediction; empty if there is", None)
    if design.seeds:
        variables["seeds_done"] = place(found.done, (), "networks simulated")
    if dense is not None:
        variables["seed_number"] = place(dense[0], ("seed",), "seed of each network; -1 where there is none")
    return variables


def _dense(design: Design, found: _Gathered) -> tuple[Array, dict[str, Array]] | None:
    """Return seed numbers and every seed's values in one table, unless it would be large and mostly empty."""
    if found.networks is None:
        return None
    most = max(design.seeds, *(1 + max(places, default=-1) for places, _, _ in found.networks))
    size = design.points * most * (1 + len(QUANTITIES) * design.penalties) * 8
    if size > max(_LARGE_TABLE, _FILL * sum(values.nbytes for _, _, values in found.networks)):
        _log.warning(
            "left out every seed's value: up to %d seeds at %d points would make a table of %.1f GB, mostly empty",
            most,
            design.points,
            size / 1e9,
        )
        return None
    numbers = np.full((design.points, most), -1, dtype=np.int64)
    values = {name: np.full((design.points, design.penalties, most), np.nan) for name in QUANTITIES}
    for point, (places, seeds, rows) in enumerate(found.networks):
        numbers[point, places] = seeds
        for k, name in enumerate(QUANTITIES):
            values[name][point][:, places] = rows[:, k].T
    return numbers, values


def _dimension(design: Design) -> float:
    """Return the input dimension that all points share; nan where they differ in it."""
    varies = any("d" in axis.names for axis in design.axes)
    return math.nan if varies else design.problems(0)[0].d


def _coordinates(axis: Axis, d: float) -> dict[str, Any]:
    """Return the labels of an axis: numbers where all its values are, otherwise their text.

    Multiples of the input dimension are the sizes that they stand for, if all points have one finite dimension and no
    two of them are rounded to one size; otherwise text such as 1.5d.
    """
    found: dict[str, Any] = {}
    for position, name in enumerate(axis.names):
        values = [value[position] for value in axis.values]
        labels = [_label(value, name, d) for value in values]
        if len(set(labels)) < len(set(map(str, values))):
            labels = [_label(value, name, math.nan) for value in values]
        if not all(isinstance(label, int | float) for label in labels):
            labels = [str(label) for label in labels]
        # A zipped axis has no single label: its parameters are coordinates along it.
        found[name] = labels if len(axis.names) == 1 else (axis.dimension, labels)
    return found


def _label(value: Any, name: str, d: float) -> float | int | str:
    if isinstance(value, dict) and set(value) == {"coefficient", "exponent"}:
        if value["exponent"] == 0:
            return float(value["coefficient"])
        return f"{float(value['coefficient'])!r}*N**{float(value['exponent'])!r}"
    size = read_size(name, value) if name in _PROPORTIONAL else value
    if isinstance(size, Proportional):
        if not math.isfinite(d):
            return f"{size.ratio!r}d"
        return at_dimension(size, d) if name == "ridge" else round(at_dimension(extent(name, size, d), d))
    if value is None and name == "inputs":
        return "isotropic"
    if is_real(value):
        return value
    return math.inf if value == "inf" else value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def check_file(path: Path) -> None:
    """See that a dataset can be written to a path, before the work of collecting it.

    Raises `InvalidInput` on an ending of no format, or a directory that does not exist.
    """
    if path.suffix not in FORMATS:
        raise InvalidInput("out", str(path), f"a file that ends in {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise InvalidInput("out", str(path), "a file in a directory that exists")


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
    check_file(path)
    try:
        # Through a link, as plain writing would.
        replace_file(path.resolve(), _content(dataset, path.suffix))
    except OSError as error:
        raise InvalidInput("out", str(path), f"a file that can be written ({error.strerror})") from None


def _content(dataset: xarray.Dataset, ending: str) -> bytes:
    """Return the bytes of a file: made in memory, for the HDF5 library does not survive a full disk."""
    if ending == ".nc":
        import h5netcdf
        from xarray.backends import H5NetCDFStore

        buffer = BytesIO()
        # What to_netcdf does; of itself it writes to memory only since xarray 2025.9.
        with h5netcdf.File(buffer, "w") as file:
            dataset.dump_to_store(H5NetCDFStore(file))
        return buffer.getvalue()
    points = dataset.drop_dims("seed", errors="ignore")
    # Without an axis there is one row.
    table = points.to_dataframe().reset_index() if points.sizes else points.expand_dims("point").to_dataframe()
    content: bytes = table.to_csv(index=False).encode() if ending == ".csv" else table.to_parquet(index=False)
    return content


class Status(dict[str, Any]):
    """Counts of a sweep's directory.

    ``points`` (each penalty of a path counted), ``seeds`` (of each point), ``tasks``, ``done`` and ``missing`` of
    these, ``added`` (networks beyond those seeds), ``other`` (of other settings or versions), ``aside`` (damaged).
    """


def status(folder: Path | str) -> Status:
    """Count what is finished in a directory, by its files' names (`collect` checks what is in them).

    Raises `InvalidInput` if the directory holds no sweep.
    """
    folder = Path(folder)
    design = manifest_of(folder)
    done, added, other = take_stock(design, Store(folder))
    return Status(
        points=design.points * design.penalties,
        seeds=design.seeds,
        tasks=design.task_count,
        done=done,
        missing=design.task_count - done,
        added=added,
        other=other,
        aside=sum(1 for _ in folder.rglob("*.damaged")),
    )
