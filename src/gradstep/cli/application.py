"""The Typer application: commands, options, exit codes."""

from __future__ import annotations

import errno
import inspect
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gradstep.cli.failure import INVALID_INPUT, NOT_CONVERGED, fail, interrupted, report, report_error
from gradstep.cli.grid import build_grid, read_pairs, read_settings
from gradstep.errors import MISSING, GradstepError, InvalidInput

if TYPE_CHECKING:
    from gradstep.grid import Grid
    from gradstep.text_table import Table
    from gradstep.theory import Prediction, Spread

_NETWORK = "Network and data"
_STEP = "Step and fit"
_SOURCE = "Other ways to give the problem"
_SIMULATION = "Simulation"
_TUNING = "Tuning"
_OUTPUT = "Output"

_CONVENTION = (
    "Convention: f(x) = (1/N) sum_i a_i sigma(<w_i, x>); step w_i += (eta/sqrt N) G_i, G averaged over n_step samples; "
    "ridge penalises |b|^2 against the SUM of squares over n samples; errors are mean squares without 1/2, the test "
    "error without label noise."
)
_RANGES = (
    "Everything may be a list: relu,tanh or 0,1,N^0.5; numbers also a range, 500:4000:12 (12 values) or 1e-4:1e2:log7 "
    "(7 values, even in the logarithm). Several lists make a grid. Sizes and the penalty may be multiples of d: 1.5d, "
    "d/64, 0.5d:4d:8."
)

_NOTES = f"{_RANGES} {_CONVENTION}"
_ON_REQUEST = "What the numbers mean: gradstep convention"
#: A spread is known to leading order.
_SPREAD_DIGITS = 3
_CAVEATS_OF_SPREADS = "the same effects may change a spread by about twice as many per cent"


#: What printing may raise: a full disk or quota, too large a file, a bad device, a closed pipe or file.
_LOST_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE, errno.EBADF)
_PRINTABLE = "a file, pipe or terminal that can be written"

#: What an unknown option raises; Typer exports only its subclass.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]


class _Group(TyperGroup):
    """Turns the errors meant for people into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        as_json = "--json" in [*getattr(ctx, "_protected_args", []), *ctx.args]
        try:
            return super().invoke(ctx)
        except _USAGE_ERROR as error:
            if not as_json:
                raise  # Typer's own message, with the usage
            report(type(error).__name__, error.format_message(), INVALID_INPUT, as_json)  # type: ignore[attr-defined]
            raise typer.Exit(INVALID_INPUT) from None
        except InvalidInput as error:
            fail(error, INVALID_INPUT, as_json)
        except GradstepError as error:
            fail(error, NOT_CONVERGED, as_json)
        except MemoryError:
            fail(InvalidInput("sizes", "too large", "sizes that fit in memory"), INVALID_INPUT, as_json)
        except KeyboardInterrupt as error:
            interrupted(error, "nothing was written", as_json)


app = typer.Typer(
    cls=_Group,
    name="gradstep",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What does one gradient step on the first layer do to a two-layer network? Theory, and the network itself.",
    epilog="Start with [bold]gradstep predict[/bold], then "
    "[bold]gradstep compare --n 100:1000:8 --plot learning.png[/bold]; "
    "[bold]gradstep reproduce[/bold] draws the figures of the papers. " + _CONVENTION,
)


def main() -> None:
    """Run the command line; say so where standard output does not take what is printed."""
    as_json = "--json" in sys.argv
    if sys.stdout is None:
        report_error(InvalidInput("standard output", "closed", _PRINTABLE), INVALID_INPUT, as_json)
        sys.exit(INVALID_INPUT)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # what is no stream of text, or has no reader any more
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # question marks for Greek letters
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where what goes wrong can be told
    except OSError as error:
        if error.errno not in _LOST_OUTPUT or error.filename is not None:
            raise
        # Leave nothing for the interpreter to flush into what does not take it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            sys.exit(1)  # the reader (head, less) has gone
        report_error(InvalidInput("standard output", error.strerror, _PRINTABLE), INVALID_INPUT, as_json)
        sys.exit(INVALID_INPUT)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"gradstep {version('gradstep')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


#: Parameters of a problem that are options on their own, each with its help and its panel.
_PARAMETERS = {
    "activation": ("Name or formula, such as relu or 'tanh(x) + 0.3*x**2'; tanh if not given.", _NETWORK),
    "teacher": ("Link f* of the labels: name or formula; sin if not given.", _NETWORK),
    "d": ("Input dimension; inf is the proportional limit; 128 if not given.", _NETWORK),
    "width": ("Neurons N; 1.5d if not given.", _NETWORK),
    "noise": ("Standard deviation of the label noise; 0.1 if not given.", _NETWORK),
    "readout": (
        "Readout law at initialisation: gaussian, constant, or VALUE:WEIGHT pairs such as -1:1,1:1 in any proportion; "
        "gaussian if not given.",
        _NETWORK,
    ),
    "initial_weights": ("Rows at initialisation: gaussian or sphere; gaussian if not given.", _NETWORK),
    "output_scale": ("Prefactor of the network in the step: 1/N or 1/sqrt(N); 1/N if not given.", _NETWORK),
    "inputs": (
        "Correlated inputs: 'power_law(0.5)', 'power_law(1, d=128)', 'spiked([9, 9], d=128)'; isotropic if not given.",
        _NETWORK,
    ),
    "n_step": ("Samples of the gradient step; inf is the population gradient; 4d if not given.", _STEP),
    "eta": ("Step size: a number, 1.5*N^0.5 or sqrt(N), or a list such as 0,1,N^0.5; N^0.5 if not given.", _STEP),
    "damping": (
        "Damping: the gradient is multiplied by (1 + damping) (X^T X / n_step + damping)^-1; inf, the plain step, if "
        "not given.",
        _STEP,
    ),
    "n": ("Fresh samples of the ridge fit; 3d if not given.", _STEP),
    "ridge": ("Penalty on |b|^2 against the sum of squares; d/64 if not given.", _STEP),
}


def _path(text: str) -> Path:
    """Return a path; an empty text, as an unset variable of the shell leaves it, is not the current directory."""
    if not text:
        raise typer.BadParameter("an empty text is no path; the current directory is .")
    return Path(text)


_Settings = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml", parser=_path, help="Read parameters; options on the line win.", rich_help_panel=_SOURCE
    ),
]
_Convention = Annotated[
    str | None,
    typer.Option(
        help="Whose parameters: canonical, ba2022, moniri2024 or cui2024 (their own names through --set).",
        rich_help_panel=_SOURCE,
    ),
]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any parameter, repeatable: psi1=4.", rich_help_panel=_SOURCE),
]


def _problem_options() -> list[inspect.Parameter]:
    """Return the options of a problem, as parameters of a command."""
    kinds: dict[str, Any] = {
        name: Annotated[str | None, typer.Option(help=text, rich_help_panel=panel)]
        for name, (text, panel) in _PARAMETERS.items()
    }
    kinds |= {"settings": _Settings, "convention": _Convention, "set_": _Set}
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, kind, default=None, annotation=each) for name, each in kinds.items()]


def _problem(settings: Path | None, set_: list[str] | None, options: dict[str, str | None]) -> dict[str, Any]:
    """Return the parameters that are given: in a file, by options, by --set."""
    pairs = read_pairs(set_ or [])
    given = {name: value for name, value in options.items() if value is not None}
    for name in pairs.keys() & given.keys():
        raise InvalidInput("set", f"{name}={pairs[name]}", f"{name} only once: as --set or as an option of its own")
    return (read_settings(settings) if settings is not None else {}) | given | pairs


def _takes_problem(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a problem in place of its first parameter, a `Grid`."""
    # The class itself would bring NumPy, which the help does without.
    known = inspect.signature(command, eval_str=True, locals={"Grid": object})
    own = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in list(known.parameters.values())[1:]]

    def run(settings: Path | None, set_: list[str] | None, **values: Any) -> None:
        options = {name: values.pop(name) for name in (*_PARAMETERS, "convention")}
        command(build_grid(_problem(settings, set_, options)), **values)

    parameters = [*_problem_options(), *own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


_Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", parser=_path, help="Draw a figure: .png, .pdf or .svg.", rich_help_panel=_OUTPUT),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, in full precision.", rich_help_panel=_OUTPUT)]
_Seeds = Annotated[
    str, typer.Option(help="How many seeds, or the seeds: 3,7,11.", rich_help_panel=_SIMULATION, show_default=True)
]
_Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda or cuda:0 for PyTorch; NumPy if not given.", rich_help_panel=_SIMULATION),
]
_Dtype = Annotated[str, typer.Option(help="float64 or float32.", rich_help_panel=_SIMULATION, show_default=True)]


def _print_document(command: str, grid: Grid, **content: Any) -> None:
    """Print the JSON of a command that is about a grid."""
    from gradstep.cli.output import print_document
    from gradstep.problem import CONVENTION

    axes = {axis.name: list(map(axis.plain, axis.values)) for axis in grid.axes}
    units = {axis.name: axis.unit for axis in grid.axes if axis.unit == "d"}
    print_document(command, **{"convention": CONVENTION, "axes": axes, "units": units, **content})


def _print_heading(grid: Grid) -> None:
    """Print what all problems have in common."""
    from gradstep.cli.output import print_wrapped
    from gradstep.problem import differences

    count = len(grid.problems)
    omit = differences(grid.problems) if count > 1 else ()
    over = f"{count} problems over {' and '.join(grid.heads)}: " if count > 1 else ""
    print_wrapped(over + grid.problems[0].described(omit), "")


@app.command(
    epilog="Examples: [bold]gradstep predict --activation relu --n 100:2000:8[/bold] · "
    "[bold]gradstep predict --eta N^0:0.5:11 --plot steps.png[/bold] · "
    "[bold]gradstep predict --convention ba2022 --set psi1=4 --set psi2=2 --set lam=1e-3 --set eta=1[/bold]. " + _NOTES
)
@_takes_problem
def predict(
    grid: Grid,
    plot: _Plot = None,
    spread: Annotated[
        bool,
        typer.Option("--spread", help="Also how far single networks lie from it: standard deviations over draws."),
    ] = False,
    json_: _Json = False,
) -> None:
    """Predict errors, alignment and spike from theory, in milliseconds."""
    from gradstep.cli import output, plots
    from gradstep.cli.compute import lines_of, predict_grid, spread_grid
    from gradstep.curves import Curve

    plots.check_plot_path(plot, grid)
    predictions = predict_grid(grid)
    curve = Curve(grid, tuple(predictions))
    spreads = spread_grid(grid) if spread else []
    failure = None
    if plot is not None:
        failure = plots.attempt(lines_of(curve).plot() if grid.axes else predictions[0].plot(), plot)
    if json_:
        results = [
            {"coordinates": grid.coordinates(index), **prediction.to_dict()}
            for index, prediction in enumerate(predictions)
        ]
        for result, found in zip(results, spreads, strict=False):
            result["spread"] = found.to_dict()
        _print_document("predict", grid, predictions=results)
        plots.conclude(plot, failure, silent=True)
        return
    _print_heading(grid)
    table = curve.table() if grid.axes else _before_and_after(predictions[0])
    output.print_table(_with_spreads(table, spreads) if spreads else table)
    methods = ", ".join(dict.fromkeys(prediction.method for prediction in predictions))
    told = [_CAVEATS_OF_SPREADS] if any(found.caveats for found in spreads) else []
    output.print_wrapped("", *curve.notes(), *told, f"method: {methods}", _ON_REQUEST)
    plots.conclude(plot, failure)


def _before_and_after(after: Prediction) -> Table:
    """Return a table of one prediction beside that without the step."""
    from gradstep.cli import output
    from gradstep.text_table import in_words
    from gradstep.theory import QUANTITIES, predict

    if after.problem.eta.coefficient == 0:
        columns = {"no step": after}
    else:
        columns = {"without the step": predict(after.problem.replace(eta=0.0)), "after the step": after}
    rows = [[in_words(name), *(output.number(getattr(each, name)) for each in columns.values())] for name in QUANTITIES]
    return output.Table(["quantity", *columns], rows)


def _with_spreads(table: Table, spreads: list[Spread]) -> Table:
    """Return a table of predictions with the standard deviations over draws: as columns, or in the rows of errors."""
    from gradstep.cli import output
    from gradstep.text_table import in_words

    of = ("test_error", "train_error")
    if len(spreads) > 1:
        heads = [f"spread of {in_words(name)}" for name in of]
        cells = [[output.number(getattr(spread, name), _SPREAD_DIGITS) for name in of] for spread in spreads]
    else:
        heads = ["spread"]
        own = {in_words(name): output.number(getattr(spreads[0], name), _SPREAD_DIGITS) for name in of}
        cells = [[own.get(row[0], "")] for row in table.rows]
    rows = [[*row, *cell] for row, cell in zip(table.rows, cells, strict=True)]
    return replace(table, header=[*table.header, *heads], rows=rows)


@app.command(
    epilog="Examples: [bold]gradstep simulate --seeds 16[/bold] · "
    "[bold]gradstep simulate --ridge 1e-3:1e3:log13 --json[/bold] (a path of penalties costs little more than one). "
    + _NOTES
)
@_takes_problem
def simulate(
    grid: Grid,
    seeds: _Seeds = "16",
    device: _Device = None,
    dtype: _Dtype = "float64",
    test_samples: Annotated[
        int, typer.Option(min=0, max=10**9, help="Also test on that many fresh inputs.", rich_help_panel=_SIMULATION)
    ] = 0,
    fit: Annotated[
        str, typer.Option(help="'drawn', or 'expected': errors averaged over fits.", rich_help_panel=_SIMULATION)
    ] = "drawn",
    json_: _Json = False,
) -> None:
    """Measure the same quantities on the real network: draw it, take the step, fit, and test exactly."""
    from gradstep.cli import output
    from gradstep.cli.compute import simulating
    from gradstep.ranges import parse_seeds
    from gradstep.simulation import simulate_many
    from gradstep.text_table import in_words

    with simulating(grid, device) as report:
        measurements = simulate_many(
            grid.problems,
            parse_seeds(seeds),
            fit=fit,
            device=device,
            dtype=dtype,
            test_samples=test_samples,
            progress=report,
        )
    if json_:
        results = [
            {
                "coordinates": grid.coordinates(index),
                **measurement.to_dict(),
                "mean": {name: float(measurement.mean(name)) for name in measurement.values},
                "standard_error": {name: float(measurement.standard_error(name)) for name in measurement.values},
            }
            for index, measurement in enumerate(measurements)
        ]
        first = measurements[0]
        content = {"seeds": list(first.seeds), "measurements": results, "versions": dict(first.versions)}
        _print_document("simulate", grid, **content)
        return
    _print_heading(grid)
    rows = [
        [*cells, in_words(name), *texts]
        for cells, found in zip(grid.cells, measurements, strict=True)
        for name, texts in found.texts().items()
    ]
    header = [*grid.heads, "quantity", "mean", "standard error"]
    output.print_table(output.Table(header, rows, index=len(grid.heads)))
    notes = dict.fromkeys(note for found in measurements for note in found.notes())
    output.print_wrapped("", f"seeds: {_seed_text(measurements[0].seeds)}", *notes, _ON_REQUEST)


@app.command(
    epilog="Examples: [bold]gradstep compare --seeds 32[/bold] · "
    "[bold]gradstep compare --n 100:1000:8 --plot learning.png[/bold]. z is (network - theory) / standard error, "
    "Student's t with seeds - 1 degrees of freedom, on the normal scale: standard normal where theory is right. "
    + _NOTES
)
@_takes_problem
def compare(
    grid: Grid,
    seeds: _Seeds = "16",
    sources: Annotated[
        bool,
        typer.Option(
            "--sources",
            help="Also say where deviations come from: from the law of the rows after the step, or from the fit.",
            rich_help_panel=_SIMULATION,
        ),
    ] = False,
    device: _Device = None,
    dtype: _Dtype = "float64",
    plot: _Plot = None,
    json_: _Json = False,
) -> None:
    """Lay theory over simulation: both, and how far apart they are.

    Where some of several problems have no prediction, the others are shown all the same, and the exit code is 3.
    """
    from gradstep.cli import output, plots
    from gradstep.cli.compute import lines_of, simulating
    from gradstep.comparison import compare
    from gradstep.curves import Curve
    from gradstep.ranges import parse_seeds

    plots.check_plot_path(plot, grid)
    with simulating(grid, device) as report:
        comparison = compare(
            grid.problems, parse_seeds(seeds), sources=sources, device=device, dtype=dtype, progress=report
        )
    comparison = replace(comparison, shape=grid.shape)
    failure = None
    if plot is not None:
        curve = Curve(grid, comparison.predictions, comparison)
        failure = plots.attempt(lines_of(curve).plot() if grid.axes else comparison.plot(), plot)
    if json_:
        content = comparison.to_dict()
        for index, case in enumerate(content["comparisons"]):
            case["coordinates"] = grid.coordinates(index)
        _print_document("compare", grid, **content)
    else:
        places = grid.places()
        _print_heading(grid)
        output.print_table(comparison.table(places))
        if sources:
            output.print_lines("", "where deviations come from")
            output.print_table(comparison.source_table(places))
        output.print_wrapped("", f"seeds: {_seed_text(comparison.seeds)}", *comparison.notes(places), _ON_REQUEST)
    plots.conclude(plot, failure, silent=json_)
    if comparison.failures:
        raise typer.Exit(NOT_CONVERGED)


@app.command(
    epilog="Examples: [bold]gradstep spectrum --plot features.png[/bold] · "
    "[bold]gradstep spectrum --of weights --eta 2*N^0.5 --seeds 8[/bold]. " + _NOTES
)
@_takes_problem
def spectrum(
    grid: Grid,
    of: Annotated[str, typer.Option(help="features (of the fit's samples) or weights (of the first layer).")] = (
        "features"
    ),
    seeds: Annotated[
        str, typer.Option(help="How many networks to measure, or their seeds; 0: theory only.", show_default=True)
    ] = "4",
    plot: _Plot = None,
    json_: _Json = False,
) -> None:
    """Predict the singular values after the step, their bulk and outliers, and measure them."""
    from gradstep.cli import output, plots
    from gradstep.ranges import parse_seeds
    from gradstep.spectra import spectrum

    plots.check_plot_path(plot)
    if len(grid.problems) > 1:
        axis = next(axis for axis in grid.axes if len(axis.values) > 1)
        raise InvalidInput(axis.head, axis.texts, "one value: a spectrum is of one problem")
    found = spectrum(grid.problems[0], parse_seeds(seeds, 0), of=of)
    failure = plots.attempt(found.plot(), plot) if plot is not None else None
    if json_:
        output.print_document("spectrum", **found.to_dict())
    else:
        output.print_lines(str(found))
    plots.conclude(plot, failure, silent=json_)


@app.command()
def convention(json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what the numbers mean: network, step, fit and errors, and how the papers' parameters translate."""
    from gradstep.cli import output
    from gradstep.problem import CONVENTION, CONVENTION_IN_FULL, TRANSLATION

    if json_:
        output.print_json({"command": "convention", "convention": CONVENTION, "papers": TRANSLATION})
        return
    output.print_lines(CONVENTION_IN_FULL, "")
    rows = [[paper, *(own[name] for name in ("eta", "ridge"))] for paper, own in TRANSLATION.items()]
    output.print_table(output.Table(["paper", "eta here", "ridge here"], rows))


@app.command(
    epilog="Examples: [bold]gradstep tune[/bold] · [bold]gradstep tune --over ridge --n 100:1000:8[/bold] (a tuned "
    "curve) · [bold]gradstep tune --over ridge,eta,split --readout constant[/bold]. " + _NOTES
)
@_takes_problem
def tune(
    grid: Grid,
    over: Annotated[
        str,
        typer.Option(
            help="What to tune, with commas: ridge, eta (its coefficient; the power of N stays), damping (infinity is "
            "the plain gradient), split (n_step against n, their sum fixed).",
            rich_help_panel=_TUNING,
        ),
    ] = "ridge,eta",
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOW:HIGH", help="Where to look: ridge=1e-3:1e3; repeatable.", rich_help_panel=_TUNING
        ),
    ] = None,
    json_: _Json = False,
) -> None:
    """Find the best ridge, step size, damping or split of the samples, from theory, with a certificate.

    The predicted test error is scanned over the whole range, every valley
    followed down, and the minimum certified: no neighbour on either side is
    lower, the slope d log(error) / d log(value) is zero, and an optimum on a
    bound is named (ridge -> 0, no step, the larger the better). "within 1 %"
    says how far a value may be off.
    """
    from gradstep.cli.tune import print_tuned, tune_grid

    tuned = tune_grid(grid, over, bounds or [])
    if json_:
        results = [
            {"coordinates": grid.coordinates(index), "before": grid.problems[index].to_dict(), **best.to_dict()}
            for index, best in enumerate(tuned)
        ]
        _print_document("tune", grid, tuned=results)
        return
    _print_heading(grid)
    print_tuned(grid, tuned)


@app.command(
    epilog="Examples: [bold]gradstep learn houses.csv --target price[/bold] · "
    "[bold]gradstep learn houses.parquet --target price --drop id --plot houses.png[/bold]. "
    "Errors are mean squares on new rows over the variance of the target, 1 - R^2, with the standard error for another "
    "table of this size. For more rows than the table has they are an extrapolation."
)
def learn(
    table: Annotated[Path, typer.Argument(parser=_path, help="Your data: .csv with a line of names, or .parquet.")],
    target: Annotated[str, typer.Option(help="Column to predict; text is taken for classes.")],
    drop: Annotated[list[str] | None, typer.Option(help="Leave this column out; repeatable.")] = None,
    classes: Annotated[bool, typer.Option("--classes", help="The numbers of the target are classes.")] = False,
    width: Annotated[
        int,
        typer.Option(min=1, max=4096, help="Neurons. For 363 rows or more the estimators choose more by themselves."),
    ] = 512,
    n: Annotated[
        str | None, typer.Option(help="Numbers of rows: 100,200 or 50:800:5; at most twice as many as the table has.")
    ] = None,
    max_rows: Annotated[int, typer.Option(min=10, help="Most rows of the table that are used.")] = 2048,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the drawn neurons.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", "--out", metavar="FILE", parser=_path, help="Draw a figure: .png, .pdf or .svg."),
    ] = None,
    json_: _Json = False,
) -> None:
    """Say what more rows of your table would bring: one step, random features and plain ridge regression.

    Each of the three curves is measured on all of your rows, from a tenth of
    them to twice as many, at the best penalty for each number. No row is
    scored by features that know its target.
    """
    from gradstep.cli import output, plots
    from gradstep.cli.learn import (
        holds_classes,
        input_notes,
        learn_table,
        notes_of,
        numbers_of_rows,
        read_table,
        scores_table,
        target_of,
    )  # fmt: skip

    plots.check_plot_path(plot)
    X, y = target_of(read_table(table), target, drop or [])
    classes = holds_classes(y, given=classes)
    sizes = None if n is None else numbers_of_rows(n, min(len(y), max_rows))
    curves = learn_table(X, y, classes=classes, width=width, seed=seed, n=sizes, max_rows=max_rows)
    from gradstep.estimators.alternatives import verdict

    failure = None
    if plot is not None:
        from gradstep.estimators.figures import draw_scores

        failure = plots.attempt(draw_scores(curves), plot)
    if json_:
        models = {name: curve.to_dict() for name, curve in curves.items()}
        content = {"table": str(table), "target": target, "rows": len(y), "inputs": X.shape[1], "width": width}
        found = {"classes": classes, "models": models, "verdict": verdict(curves), "notes": input_notes(X)}
        output.print_document("learn", **content, **found)
        plots.conclude(plot, failure, silent=True)
        return
    used = next(iter(curves.values())).rows
    some = f", {used} of them looked at" if used < len(y) else ""
    inputs = f"{X.shape[1]} input{'s' * (X.shape[1] != 1)}"
    neurons = f"{width} neuron{'s' * (width != 1)}"
    output.print_lines(f"{table}: {target} from {inputs}, {len(y)} rows{some}, {neurons}")
    output.print_lines("error: squared error on new rows / variance of the target, +- standard error", "")
    output.print_table(scores_table(curves))
    notes = [*input_notes(X), *notes_of(curves)]
    output.print_wrapped("", verdict(curves), *(["", *notes] if notes else []))
    plots.conclude(plot, failure)


@app.command(
    epilog="Examples: [bold]gradstep citation > gradstep.bib[/bold] · [bold]gradstep citation 'large step' "
    "fig3a[/bold] · [bold]gradstep citation predict --eta N^0.25[/bold]."
)
@_takes_problem
def citation(
    grid: Grid,
    of: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="A method (uniform equivalent, small step, large step, random features, ...), a figure, a paper, or "
            "predict: the methods behind gradstep predict with the same options. Everything if not given.",
        ),
    ] = None,
    json_: _Json = False,
) -> None:
    """Print the BibTeX of gradstep and of the papers behind a method, a figure or a prediction."""
    from gradstep.citations import citation_keys, citation_of_keys
    from gradstep.cli import output
    from gradstep.cli.compute import predict_grid

    if "predict" not in (of or []) and grid.problems != build_grid({}).problems:
        raise InvalidInput("name", None, "predict, the name that options of a problem go with", MISSING)
    subjects: list[object] = []
    for name in of or []:
        subjects += predict_grid(grid) if name == "predict" else [name]
    keys = tuple(dict.fromkeys(key for subject in subjects or [None] for key in citation_keys(subject)))
    if json_:
        entries = {key: citation_of_keys([key]) for key in keys}
        output.print_document("citation", entries=entries)
    else:
        output.print_lines(citation_of_keys(keys))


@app.command(
    epilog="Examples: [bold]gradstep reproduce[/bold] · [bold]gradstep reproduce --list[/bold] · "
    "[bold]gradstep reproduce --preset quick --figure fig3a[/bold]. "
    "Exit code 1 if a figure misses its criterion. An interrupted run goes on where it stopped when started again."
)
def reproduce(
    preset: Annotated[str, typer.Option(help="quick, standard or paper (the papers' sizes).")] = "standard",
    figure: Annotated[list[str] | None, typer.Option(help="Only this figure; repeatable.")] = None,
    paper: Annotated[
        str | None, typer.Option(help="All figures of one paper: ba2022, moniri2024, cui2024; or beyond.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every figure of every paper.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Only list the figures (with --paper: of one paper).")] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIRECTORY", parser=_path, help="Directory of the report and of finished results.")
    ] = Path("reports"),
    workers: Annotated[int | None, typer.Option(min=1, max=4096, help="Processes; one per core if not given.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON in place of the table.")] = False,
) -> None:
    """Reproduce the papers' figures: theory over simulation, a table of z-scores, one self-contained HTML report.

    Without a choice: the headline figures, in a few minutes. Interrupted runs go on from what is finished.
    """
    from gradstep.cli.reproduction import list_figures, reproduce

    if list_:
        list_figures(figure, paper, json_)
        return
    reproduce(preset, figure, paper, all_, out, workers, json_)


@app.command(
    epilog="Examples: [bold]gradstep sweep settings.toml --out results[/bold] · "
    "[bold]gradstep sweep settings.toml --out results --until-se 0.01[/bold] · "
    "[bold]gradstep sweep settings.toml --out results --shard 3/16[/bold]. "
    "The same command goes on where it stopped."
)
def sweep(
    settings: Annotated[
        Path, typer.Argument(parser=_path, help=r"TOML file: \[problem], \[over], [\[zipped]], \[run].")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIRECTORY", parser=_path, help="Directory of results; a run that was interrupted goes on from it."
        ),
    ],
    seeds: Annotated[
        int | None, typer.Option(min=0, help="Networks for each point (default: the file's, or 16).")
    ] = None,
    until_se: Annotated[
        float | None, typer.Option(help="Add seeds where the relative standard error is larger, the worst first.")
    ] = None,
    max_seeds: Annotated[int, typer.Option(min=2, help="Bound on the seeds of a point with --until-se.")] = 10_000,
    workers: Annotated[int | None, typer.Option(min=1, max=4096, help="Processes; one per core if not given.")] = None,
    shard: Annotated[
        str | None, typer.Option(help="i/N: every N-th task, for array jobs that share a directory.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Dask scheduler tcp://host:port, or local, in place of processes.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:k: PyTorch does the linear algebra.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 (default) or float32.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
) -> None:
    r"""Predict and simulate a grid of problems: survives Ctrl-C, kill -9 and lost workers, and goes on from there.

    The settings file has a table \[problem] with the parameters that all points
    share, \[over] with lists or ranges ("500:4000:12", "1e-4:1:log9") of those
    that vary, tables [\[zipped]] of those that vary together, and \[run] with
    seeds, first_seed, paired, theory, device, dtype. A parameter that varies
    may be in \[problem] too: it varies all the same. Collect the results with
    `gradstep collect`.
    """
    from gradstep.cli.sweeping import read_design, run_sweep

    design = read_design(settings, {"seeds": seeds, "device": device, "dtype": dtype})
    command = shlex.join(["gradstep", *sys.argv[1:]])
    run_sweep(
        design,
        out,
        workers=workers,
        cluster=cluster,
        shard=shard,
        until_se=until_se,
        max_seeds=max_seeds,
        command=command,
        as_json=json_,
    )


@app.command()
def collect(
    results: Annotated[Path, typer.Argument(parser=_path, help="Directory of a sweep, finished or not.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            parser=_path,
            help="File to write: .nc (every seed), .csv or .parquet (one row for each point).",
        ),
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
) -> None:
    """Collect the results of a sweep into one labelled dataset; what is not finished is nan, and counted."""
    from gradstep.cli import output
    from gradstep.sweeps import check_file, collect, save

    check_file(out)
    dataset = collect(results, every_seed=out.suffix == ".nc")
    save(dataset, out)
    sizes = {str(name): int(size) for name, size in dataset.sizes.items()}
    tasks, done, damaged = (dataset.attrs[name] for name in ("tasks", "tasks_done", "tasks_damaged"))
    if json_:
        counts = {"tasks": tasks, "done": done, "missing": tasks - done, "damaged": damaged}
        output.print_document("collect", file=str(out), sizes=sizes, **counts)
    else:
        rest = f"; the other {tasks - done} are nan until the sweep has computed them" if done < tasks else ""
        aside = f" ({damaged} damaged and set aside)" if damaged else ""
        output.print_lines(
            ", ".join(f"{name}: {size}" for name, size in sizes.items()), f"{done}/{tasks} tasks{aside}{rest}", str(out)
        )


@app.command()
def status(
    results: Annotated[Path, typer.Argument(parser=_path, help="Directory of a sweep.")],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
) -> None:
    """Count what is finished in the directory of a sweep, by the files' names; `collect` checks what is in them."""
    from gradstep.cli import output
    from gradstep.sweeps import status

    counts = status(results)
    if json_:
        output.print_document("status", **counts)
    else:
        output.print_lines(*(f"{name:>8}  {value}" for name, value in counts.items()))


@app.command("app", epilog="Example: [bold]gradstep app[/bold], then drag a slider.")
def app_(
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines reach the page at any but the loopback's.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes one that is free.")] = 8765,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes for the curves; one per core, at most 4, if not given."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open the interactive page: sliders, live curves, simulations over them. Works offline, on this machine only."""
    from gradstep.cli.app import run_app

    run_app(host, port, workers, browser=browser)


@app.command()
def functions(json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the functions known by name; formulas such as 'tanh(x) + 0.3*x**2' or 'H2 + 0.5*H3' work too."""
    from gradstep.cli import output
    from gradstep.gaussian import REGISTERED, moments

    known = {name: (function, moments(function)) for name, function in REGISTERED.items()}
    if json_:
        described = {
            name: {
                "parity": function.parity,
                "kinks": list(function.kinks),
                "mean": float(m.mean),
                "linear": float(m.linear),
                "second_moment": float(m.second_moment),
            }
            for name, (function, m) in known.items()
        }
        output.print_document("functions", functions=described)
        return
    rows = [
        [
            name,
            function.parity or "-",
            ", ".join(f"{k:g}" for k in function.kinks) or "-",
            *(output.number(_rounded(float(v)), 5) for v in (m.mean, m.linear, m.second_moment)),
        ]
        for name, (function, m) in known.items()
    ]
    output.print_table(output.Table(["name", "parity", "kinks", "E f(z)", "E z f(z)", "E f(z)^2"], rows))
    output.print_lines(
        "", "z ~ N(0, 1). Formulas of these in x work too: 'tanh(x) + 0.3*x**2', 'H2 + 0.5*H3' (Hermite polynomials)."
    )


def _rounded(value: float) -> float:
    return 0.0 if abs(value) < 1e-12 else value


def _seed_text(seeds: tuple[int, ...]) -> str:
    if len(seeds) > 8 and seeds == tuple(range(len(seeds))):
        return f"0 to {len(seeds) - 1}"
    return ", ".join(map(str, seeds))
