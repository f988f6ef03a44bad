"""The command line: a thin face over problem, theory, simulation and the papers' figures.

Modules load NumPy, SciPy and Matplotlib only inside the commands that need them, so that ``--help`` is immediate.
"""

from gradstep.cli.application import app, main

__all__ = ["app", "main"]
