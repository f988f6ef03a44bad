"""Models of the rows after the step: the real network's law, or the isotropic one of Cui et al. 2024."""

from __future__ import annotations

from typing import Literal

from gradstep.errors import InvalidInput

__all__ = ["BulkModel", "RowLaw", "check_models", "models_for"]

#: Joint law of a row's projection on the spike and of its squared norm.
RowLaw = Literal["network", "isotropic"]
#: Covariance of the rows off the spike.
BulkModel = Literal["structured", "isotropic"]


def check_models(rows: object, bulk: object) -> None:
    """Raise `InvalidInput` unless both are names of models, or None."""
    if rows is not None and not (isinstance(rows, str) and rows in ("network", "isotropic")):
        raise InvalidInput("rows", rows, "'network' or 'isotropic'")
    if bulk is not None and not (isinstance(bulk, str) and bulk in ("structured", "isotropic")):
        raise InvalidInput("bulk", bulk, "'structured' or 'isotropic'")


def models_for(rows: RowLaw | None, bulk: BulkModel | None) -> tuple[RowLaw, BulkModel]:
    """Return the models of rows and bulk: the network's if not given, at every dimension."""
    law: RowLaw = rows or "network"
    return law, bulk or ("structured" if law == "network" else "isotropic")
