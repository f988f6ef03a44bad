"""Search for settings at which theory and the real network differ.

    python -m benchmarks.hunt FOLDER TABLE                 all of it; goes on where the table and the folder end
    python -m benchmarks.hunt FOLDER TABLE --minutes 60    what an hour allows, the largest deviations first
    python -m benchmarks.hunt FOLDER TABLE --only search   one stage: measure, search, larger, decide or report
    python -m benchmarks.hunt FOLDER TABLE --inputs        the same of correlated inputs and damped steps
    python -m benchmarks.hunt --theory TABLE               the predictions of a table again, by the theory of today

Networks are measured by `gradstep.simulate` and kept in the folder one by one; no prediction is kept with them. The
table holds their means and scatter, to which a later search, with another folder too, adds networks of the next seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.hunt.climb import climb
from benchmarks.hunt.measure import ERRORS, Search
from benchmarks.hunt.settings import DIMENSION, PENALTIES, SEEDS, Setting, design, is_found
from benchmarks.hunt.table import falls, is_off, measured_row, measured_rows, read, with_theory, write

STAGES = ("measure", "search", "larger", "decide", "report")
#: Sizes at which what is off is measured again, with the most networks there: the next size for those deviations only
#: that are not known to fall by then.
LARGER = ((2 * DIMENSION, 32), (4 * DIMENSION, 32), (8 * DIMENSION, 32), (16 * DIMENSION, 16))
#: Where it is still open whether a deviation falls, more networks are drawn in these rounds, small ones first. A
#: deviation that seems to stay has only the last eight rounds, at eight and sixteen times the size: many a deviation
#: stays nearly the same up to four times the size and falls from there.
DECIDE = (
    (4 * DIMENSION, 8),
    (DIMENSION, 128),
    *((4 * DIMENSION, networks) for networks in (16, 32, 64, 128)),
    *((8 * DIMENSION, networks) for networks in (8, 16, 32)),
    *((16 * DIMENSION, networks) for networks in (4, 16, 32, 64, 128)),
)
#: The most networks of a setting that the local search has found.
FOUND = 64


def main() -> None:
    """Run the search, or predict a table again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where networks are kept")
    parser.add_argument("table", type=Path, nargs="?", help="results file that is written")
    parser.add_argument("--theory", type=Path, metavar="TABLE")
    parser.add_argument("--only", choices=STAGES)
    parser.add_argument("--inputs", action="store_true", help="the design with correlated inputs and damped steps")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", help="a card that draws the networks, such as cuda (default: the processor)")
    parser.add_argument(
        "--networks", type=int, default=SEEDS, help="at most so many for a setting (default: all of its seeds)"
    )
    parser.add_argument(
        "--precision", type=float, default=0.01, help="wanted relative standard error of test errors (default: 0.01)"
    )
    parser.add_argument("--starts", type=int, default=50, help="settings the local search begins from (default: 50)")
    parser.add_argument("--tries", type=int, default=12, help="neighbours it tries from each (default: 12)")
    options = parser.parse_args()
    if options.theory is not None:
        table = read(options.theory)
        print(json.dumps(write(options.theory, table["rows"], table["larger"]), indent=1))
        return
    if options.table is None:
        parser.error("a folder and a table are needed")
    rows = measured_rows(options.table)
    search = Search(options.folder, options.workers, options.minutes, rows, options.device)
    settings = design(inputs=options.inputs)
    stages = STAGES if options.only is None else (options.only,)

    def of_test_errors(_: Setting) -> np.ndarray:
        return np.array([[options.precision if name == "test_error" else np.inf] * len(PENALTIES) for name in ERRORS])

    def of_the_worst(setting: Setting) -> np.ndarray:
        """Whether the worst deviation falls is asked at larger sizes: an eighth of it is precise enough."""
        off, error = search.off(setting), search.error(setting)
        worst = np.nanargmax(np.abs(off) - 2 * error)
        wanted = np.full(off.shape, np.inf)
        wanted.flat[worst] = max(options.precision, abs(off.flat[worst]) / 8)
        return wanted

    if "measure" in stages:
        search.measure(settings, options.networks, of_test_errors)
    if "search" in stages:
        climb(search, settings, options.starts, options.tries)
        # The worst of many small samples is partly the worst by chance: what stays off is told by more networks.
        search.measure([s for s in search.found() if search.doubt(s) > 0], FOUND, of_test_errors)
    measured = search.measured([*settings, *search.found()])
    if "larger" in stages:
        off = [s for s in measured if is_off(with_theory(measured_row(search, s)))]
        off.sort(key=lambda s: -search.doubt(s))
        for place, (d, networks) in enumerate(LARGER):
            known = [size for size, _ in LARGER[:place]]
            off = [s for s in off if not falls(with_theory(measured_row(search, s)), again(search, s, known))]
            search.measure(off, min(networks, options.networks), of_the_worst, d)
    if "decide" in stages:
        decide(search, [s for s in measured if is_off(with_theory(measured_row(search, s)))])
    if "report" in stages:
        # Of the local search, what it has found.
        rows = [
            r for r in (measured_row(search, s) for s in measured) if not is_found(r["name"]) or is_off(with_theory(r))
        ]
        names = {r["name"] for r in rows}
        kept = [s for s in measured if s.name in names]
        larger = [measured_row(search, s, d) for d, _ in LARGER for s in search.measured(kept, d)]
        print(json.dumps(write(options.table, rows, larger), indent=1))


def again(search: Search, setting: Setting, dimensions: Iterable[int]) -> list[dict[str, Any]]:
    """Return what was measured of a setting at larger sizes."""
    return [measured_row(search, setting, d) for d in dimensions if search.measured([setting], d)]


def decide(search: Search, settings: Iterable[Setting]) -> None:
    """Draw more networks of the settings whose deviation is not known to fall, until it is known whether it does."""
    sizes = [size for size, _ in LARGER]
    rest = list(settings)
    for d, networks in DECIDE:
        known = [(s, falls(with_theory(measured_row(search, s)), again(search, s, sizes))) for s in rest]
        rest = [s for s, fallen in known if not fallen]
        asked = [s for s, fallen in known if fallen is None or (not fallen and d > 4 * DIMENSION)]
        print(f"{len(asked)} settings are open before {networks} networks at d = {d}", flush=True)
        search.simulate((setting, d, networks) for setting in asked)


if __name__ == "__main__":
    main()
