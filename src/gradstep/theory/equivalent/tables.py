"""Tables of the functions, the readout law and the step, as the equations of the uniform equivalent take them.

The tables do not depend on the samples and the penalty of the ridge fit, and are computed once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.problem import Problem, link_of
from gradstep.sizes import Sizes
from gradstep.theory.equivalent.features import ConditionalFeatures, conditional_features, length_dimension
from gradstep.theory.equivalent.leverage import Directions, LeverageTable, Separable
from gradstep.theory.models import BulkModel, RowLaw
from gradstep.theory.neurons.bulk import Bulk, bulk_law
from gradstep.theory.neurons.groups import Groups, neuron_groups, resolved_share
from gradstep.theory.neurons.leading_direction import (
    groups_along_leading,
    leading_direction,
    longest_directions,
    share_along_leading,
)
from gradstep.theory.neurons.plane import groups_in_plane, unit_vector
from gradstep.theory.neurons.products import OffResolved, Products, products_of
from gradstep.theory.neurons.teacher_direction import added_by_quadratic_part, share_along_teacher, teacher_direction
from gradstep.theory.step.own_output import common_share, given_own_output
from gradstep.theory.step.second_degree import with_second_degree
from gradstep.theory.step.statistics import StepStatistics, step_statistics
from gradstep.theory.together import Computation

__all__ = [
    "LARGE_DIMENSION",
    "SteppedNetwork",
    "Tables",
    "sizes_of",
    "stacked",
    "stepped_networks",
    "tables_of",
    "without_fit",
]

#: Largest eigenvalue of the inputs' covariance, over d, with a prediction.
_LARGEST_EIGENVALUE = 1 / 8

Array = NDArray[np.float64]
_Table = TypeVar("_Table", ConditionalFeatures, Groups, Bulk, Products)

#: Dimension that stands for the proportional limit. Effects of finite size fall like 1/d, or like 1/sqrt(d) where
#: the network's own output or an even part of the activation matters: at most 3e-6 of an error in 151 of 153 random
#: problems, the others having an exponential for which there is no limit. Rounding grows with the dimension, and convex
#: losses miss their tolerance from 1e14 on.
LARGE_DIMENSION = 1e12


def sizes_of(problem: Problem) -> Sizes[float]:
    """Return the sizes of a problem; a large dimension stands for the proportional limit, or the problem is refused."""
    if problem.is_limit and problem.eta.exponent not in (0, 0.5) and problem.eta.coefficient > 0:
        raise InvalidInput("eta.exponent", problem.eta.exponent, "0 or 1/2 when d is infinite")
    return problem.real_sizes(LARGE_DIMENSION)


def without_fit(problem: Problem) -> Problem:
    """Return the problem with the fields of the ridge fit set to one value: what is left determines the tables."""
    # A plain copy: validating fields that were validated before costs more than the solution's bookkeeping.
    bare = object.__new__(Problem)
    vars(bare).update(vars(problem), n=1, ridge=1.0)
    return bare


#: Least part of the features' noise that is left without the parts along products; and the least power of such a part,
#: over that of the noise, that counts.
_LEAST_NOISE = 1e-6
#: Power of a part of higher degree that may be rounding, over that of the linear part.
_ROUNDED = 1e-16
#: How many nodes there are where a second direction is resolved too, over those without it.
_COARSER = 0.6
#: Arrays over groups and nodes in the tables of one problem, with those that the solver derives from them and keeps,
#: and without one for each length of an input; arrays over groups and special directions; bytes of all that is smaller.
_BY_NODE, _BY_DIRECTION, _SMALL = 15, 4, 2.0**14
#: Smaller tables are filled up with nodes, groups and directions that have these values, and zero elsewhere. Their
#: weight is so small that all they add is lost to rounding; its inverse and its square are still numbers.
_FILL = {
    "weight": 1e-60,
    "variance": 1.0,
    "teacher_square": 1.0,
    "stretch": 1.0,
    "profile": 1.0,
    "special_profile": 1.0,
    "norm_noise": 1.0,
}


@dataclass(frozen=True)
class Tables:
    """Tables of one problem, or with a leading axis as the solver takes them (see `shared` and `stacked`)."""

    features: ConditionalFeatures
    groups: Groups
    bulk: Bulk
    #: Classes of the products of two coordinates, and of three; or none where they count as noise of each neuron's own.
    products: tuple[Products, ...] = ()
    #: The single direction along which the features have their means. There is none in the limit of large sizes, in
    #: models of papers, without products, and where two directions are resolved.
    along_means: tuple[Products, ...] = ()

    @cached_property
    def shared(self) -> Tables:
        """The tables of one problem with a leading axis of length one, for problems that share them."""
        return stacked([self])

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Numbers of groups, nodes, classes and special directions; and what tables must have in common to be stacked.

        Of one problem, without a leading axis.
        """
        features, bulk = self.features, self.bulk
        kind = int(self.joint) + 2 * int(self.in_plane) + 4 * int(self.by_length) + 8 * len(self.along_means)
        kind += 16 * len(self.products)
        classes = len(bulk.share) + sum(len(each.share) for each in self.products)
        return (*features.mean.shape, classes, len(bulk.teacher), kind, self._lengths.shape[1])

    @property
    def _lengths(self) -> Array:
        """The lengths of an input that the features follow: those of the bulk, or none in the limit of large sizes."""
        lengths = self.bulk.lengths if self.features.length_slope.size else self.bulk.lengths[..., :0]
        return lengths[..., 1:] if self.by_length else lengths

    @cached_property
    def shared_mean(self) -> Array:
        """The mean features ``g0`` of a group, followed by their slopes along each length of the input.

        Shape (groups, (1 + lengths) nodes).
        """
        along = (self.features.length_slope * seen[..., None] for seen in np.moveaxis(self._lengths, -1, 0))
        return np.concatenate([self.features.mean, *along], axis=-1)

    @cached_property
    def shared_target(self) -> Array:
        """The means of the labels at the nodes of `shared_mean`, which are zero along the lengths."""
        mean = self.features.teacher_mean
        return np.concatenate([mean, *[np.zeros_like(mean)] * self._lengths.shape[-1]], axis=-1)

    @property
    def memory(self) -> float:
        """Bytes that the tables of one problem take, about and at most."""
        (groups, nodes), special = self.features.mean.shape, len(self.bulk.teacher)
        by_node = _BY_NODE + self._lengths.shape[1]
        numbers = by_node * groups * nodes + special * (nodes + _BY_DIRECTION * groups)
        return float(8 * numbers + _SMALL)

    @cached_property
    def leverage_table(self) -> LeverageTable:
        """The tables that the fixed point takes."""
        features, bulk = self.features, self.bulk
        kinds, variance = [self._directions(self.slope, bulk)], features.variance
        for degree, products in enumerate(self.products, 2):
            higher = features.higher[..., degree - 2, :, :]
            kinds.append(self._directions(higher, products))
            variance = variance - np.square(kinds[-1].average)
        if self.products:
            # The rest is noise. The parts along products have errors, which must not make its variance negative.
            variance = np.maximum(variance, _LEAST_NOISE * features.variance)
        kinds += [self._directions(features.mean, each) for each in self.along_means]
        return LeverageTable(variance, features.weight, self.groups.weight, tuple(kinds))

    def _directions(self, slope: Array, classes: Bulk | Products) -> Directions:
        """Return directions of one kind with slopes along them."""
        found = Directions(slope, classes.share, classes.profile.mT)
        return replace(found, stretch=classes.stretch) if self.by_length else found

    @cached_property
    def by_length(self) -> bool:
        """Whether features are resolved along the first length of an input: short and long inputs then take turns."""
        return bool((self.features.stretch != 1).any())

    @cached_property
    def slope(self) -> Array:
        """Slopes of the features along coordinates of variance one, shape (batch, groups, nodes)."""
        return self.features.slope / np.sqrt(self.features.stretch) if self.by_length else self.features.slope

    @cached_property
    def separable_bulk(self) -> tuple[Separable, Separable, Separable]:
        """Variances of the groups along the special directions; these times the slope of the norm; and the pull."""
        profile, slope = self.bulk.special_profile, self.bulk.norm_slope
        return Separable.of(profile), Separable.of(slope * profile), Separable.of(self.bulk.pull)

    @cached_property
    def joint(self) -> bool:
        """Whether the spike direction is no eigenvector of the rows' covariance."""
        return bool(self.bulk.spike.any())

    @cached_property
    def in_plane(self) -> bool:
        """Whether features are resolved along a second direction too: then rows have no freedom along it."""
        return bool(self.bulk.second.any())

    @cached_property
    def second_direction(self) -> Array:
        """The second direction that features are resolved along, a unit vector, shape (batch, special)."""
        return np.asarray(self.bulk.second / np.linalg.norm(self.bulk.second, axis=-1, keepdims=True))

    @cached_property
    def teacher_slopes(self) -> Array:
        """Slopes of the teacher along the special directions of the bulk, shape (batch, special, nodes)."""
        return np.asarray(self.bulk.teacher[..., None] * self.features.teacher_slope[:, None])

    @cached_property
    def hidden_square(self) -> Array:
        """Second moment of the teacher given kappa without its mean and its slope, squared, shape (batch, nodes)."""
        features = self.features
        return np.asarray(features.teacher_square - features.teacher_mean**2 - features.teacher_slope**2)

    @cached_property
    def label_square(self) -> Array:
        """Mean square of the teacher, shape (batch,)."""
        return np.asarray(np.vecdot(self.features.weight, self.features.teacher_square))

    @cached_property
    def outermost(self) -> Array:
        """One at the last nodes of kappa and zero at all others, shape (batch, nodes)."""
        far = np.abs(self.features.kappa)
        return np.asarray(far >= far.max(axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True)
class SteppedNetwork:
    """A problem after its step, as every theory takes it: all that does not depend on the fit's samples and penalty."""

    sizes: Sizes[float]
    alignment: float  #: Overlap of the network's gradient with the teacher's direction.
    #: The step with its spike along the mean change of the rows, which is that of the gradient to leading order.
    gradient_step: StepStatistics
    #: This step in the form in which the rows count as independent of each other (`gradstep.theory.step.own_output`).
    step: StepStatistics
    #: Whether the spike is along the common part of the rows, see `gradstep.theory.step.own_output.MeanRow`.
    along_common: bool
    #: Whether a Gaussian readout has nodes of its own, see `gradstep.theory.neurons.groups.neuron_groups`.
    resolve: bool
    tables: Tables  #: With features resolved along the direction of ``step.resolved``.


def stepped_networks(
    problem: Problem,
    rows: RowLaw = "network",
    bulk: BulkModel = "structured",
    refine: float = 1,
    constant: float | None = None,
    *,
    fold: bool = True,
    any_loss: bool = False,
    regrouped: Callable[[Groups], Groups] | None = None,
    plane: bool = False,
    spectrum: bool = False,
    classes: bool = False,
    finer: float = 1.0,
    products: bool = True,
) -> Computation[tuple[tuple[float, SteppedNetwork], ...]]:
    """Return the descriptions of a network after its step over which predictions are averaged, with their weights.

    As a rule there is one. There are two where one description gives way to another, and both are right to about a per
    cent: the weight of the one falls to zero smoothly with the step while that of the other rises, so that predictions
    do not jump. This happens where a Gaussian readout begins to need nodes of its own, and where a step about doubles
    an initial output of order one. This project.

    Parameters
    ----------
    rows, bulk, refine
        As in `gradstep.predict`.
    constant : float, optional
        Constant of an initial output of order one (`gradstep.theory.step.own_output.output_constants`).
    fold : bool, optional
        Whether an odd activation has one group of neurons for a row and its opposite.
    any_loss : bool, optional
        Whether the nodes serve losses other than the square, see
        `gradstep.theory.equivalent.features.conditional_features`.
    regrouped : callable, optional
        Returns other groups for those found.
    plane : bool, optional
        Whether a second direction is resolved beside that of the spike where it matters
        (`gradstep.theory.neurons.plane`).
    spectrum : bool, optional
        As in `gradstep.theory.neurons.bulk.bulk_law`.
    classes : bool, optional
        As in `gradstep.theory.step.statistics.step_statistics`.
    finer : float, optional
        Multiplies the number of nodes along the directions that features are resolved along, and of nothing else.
    products : bool, optional
        Whether products of coordinates are directions of their own, and features are resolved along the length of an
        input (`gradstep.theory.neurons.products`). Otherwise the first are noise, and the second is a slope of the
        means.

    Raises
    ------
    InvalidInput, NotConverged
        As `gradstep.predict`.
    """
    sizes = sizes_of(problem)
    own_output = rows == "network"
    gradient_step = step_statistics(
        problem, sizes.d, sizes.width, sizes.n_step, constant,
        own_output=own_output, classes=classes, spectrum=spectrum,
    )  # fmt: skip
    alignment = gradient_step.whole_alignment
    if rows == "network":
        gradient_step = with_second_degree(problem, gradient_step, sizes.d, sizes.width)
    common = common_share(problem, gradient_step, sizes.width)
    found = []
    for weight, along_common in ((1 - common, False), (common, True)):
        if weight == 0:
            continue
        step = given_own_output(problem, gradient_step, sizes.width, along_common)
        if rows == "isotropic" and step is gradient_step:
            # In the spiked random features model a step takes nothing from the rows but an output of order one.
            step = replace(step, readout_shrinkage=1.0, taken=0.0)
        along_teacher, along_leading = 0.0, 0.0
        if plane and bulk == "structured":
            quadratic = moments(link_of(problem.teacher)).quadratic
            along_leading = share_along_leading(step.resolved, problem.readout, quadratic, sizes.d)
            along_teacher = (1 - along_leading) * share_along_teacher(problem, step.resolved, sizes.d)
        in_plane = along_teacher + along_leading
        share = resolved_share(step.resolved, problem.readout, sizes.d, rows)
        if step.correlated is not None and problem.output_scale != "1/N":
            # The rest of a row follows its projection, and the rows are without a part along the readout: the readout
            # has to be known for both.
            share = 1.0
        for part, resolve in (((1 - share) * (1 - in_plane), False), (share * (1 - in_plane), True)):
            if part > 0:
                tables = yield from tables_of(
                    problem, step.resolved, sizes, rows, bulk, refine,
                    fold=fold, any_loss=any_loss, regrouped=regrouped, resolve=resolve, spectrum=spectrum, finer=finer,
                    products=products,
                )  # fmt: skip
                network = SteppedNetwork(sizes, alignment, gradient_step, step, along_common, resolve, tables)
                found.append((weight * part, network))
        for part, leading in ((along_teacher, False), (along_leading, True)):
            if part > 0:
                # There a readout always has nodes of its own.
                tables = yield from _tables_in_plane(
                    problem, step.resolved, sizes, refine,
                    fold=fold, any_loss=any_loss, regrouped=regrouped, leading=leading, finer=finer, products=products,
                )  # fmt: skip
                network = SteppedNetwork(sizes, alignment, gradient_step, step, along_common, True, tables)
                found.append((weight * part, network))
    return tuple(found)


def tables_of(
    problem: Problem,
    step: StepStatistics,
    sizes: Sizes[float],
    rows: RowLaw = "network",
    model: BulkModel = "structured",
    refine: float = 1,
    *,
    fold: bool = True,
    any_loss: bool = False,
    regrouped: Callable[[Groups], Groups] | None = None,
    resolve: bool | None = None,
    spectrum: bool = False,
    finer: float = 1.0,
    products: bool = True,
) -> Computation[Tables]:
    """Return the tables of one problem after a given step, without a leading axis; see `stepped_networks`."""
    _check_spectrum(problem, step, sizes.d)
    odd = fold and problem.activation.parity == "odd"
    groups = neuron_groups(step, problem.readout, sizes.d, odd=odd, rows=rows, refine=refine, resolve=resolve)
    if regrouped is not None:
        groups = regrouped(groups)
    dimension = length_dimension(problem.activation, rows, sizes.d)
    bulk = yield from bulk_law(problem, step, groups, sizes.d, sizes.n_step, model, refine, spectrum=spectrum)
    off = None
    # They are effects of finite size, which the limit and the models of the papers are without.
    if products and rows == "network" and not problem.is_limit:
        off = OffResolved.of(groups.weight, bulk, _vectors(bulk.spike), sizes.d)
        bulk = replace(bulk, stretch=np.sqrt(off.stretch(groups.weight @ bulk.profile)))
    features = conditional_features(
        problem.activation,
        link_of(problem.teacher),
        groups,
        step.alignment,
        finer * refine,
        dimension,
        any_loss=any_loss,
        lengths=None if off is None else off.lengths,
    )
    if off is None:
        return Tables(features, groups, bulk)
    return Tables(features, groups, bulk, _products(off, features), (off.along_means,))


def _tables_in_plane(
    problem: Problem,
    step: StepStatistics,
    sizes: Sizes[float],
    refine: float,
    *,
    fold: bool,
    any_loss: bool,
    regrouped: Callable[[Groups], Groups] | None,
    leading: bool,
    finer: float = 1.0,
    products: bool = True,
) -> Computation[Tables]:
    """Return tables with features resolved along the spike and along a second direction.

    Docs, "Uniform equivalent", equation (E19). The second direction is the leading one of correlated inputs, or that of
    the teacher.
    """
    _check_spectrum(problem, step, sizes.d)
    odd, coarser = fold and problem.activation.parity == "odd", _COARSER * refine
    # These values of a Gaussian readout are right to 3e-4.
    along = neuron_groups(step, problem.readout, sizes.d, odd=odd, refine=min(coarser, _COARSER), resolve=True)
    if regrouped is not None:
        along = regrouped(along)
    # Where the longest direction is taken away, coarser rules lose digits.
    of_rules, longest = (refine, longest_directions(step, problem.readout, sizes.d)) if leading else (coarser, None)
    # With a great many samples their law is a point, but for the stretch along the teacher: as if there were few.
    bulk = yield from bulk_law(problem, step, along, sizes.d, sizes.d, "structured", of_rules, longest=longest)
    quadratic = moments(link_of(problem.teacher)).quadratic
    alone = bulk
    if leading:
        groups, bulk = groups_along_leading(along, bulk, quadratic, step, problem.readout, sizes.d)
        # The classes are without the leading direction: what is left of the spike is that off it.
        direction = leading_direction(along, alone, step, problem.readout)
        resolved = _vectors(unit_vector(alone.spike - float(alone.spike @ direction) * direction))
        alone = replace(alone, share=bulk.share)
    else:
        added = added_by_quadratic_part(step, *along.readouts(problem.readout), quadratic)
        groups, bulk = groups_in_plane(along, bulk, teacher_direction(along, bulk, added), added, step, sizes.d)
        resolved = _vectors(bulk.spike, unit_vector(bulk.second))
    off = None
    if products and not problem.is_limit:
        off = OffResolved.of(along.weight, alone, resolved, sizes.d).repeated(len(groups.weight) // len(along.weight))
    features = conditional_features(
        problem.activation,
        link_of(problem.teacher),
        groups,
        step.alignment,
        finer * coarser,
        length_dimension(problem.activation, "network", sizes.d),
        any_loss=any_loss,
        overlap=bulk.overlap,
        # Nodes of the length would take several times as long: it is a slope of the means here.
        lengths=None if off is None else off.lengths,
    )
    # The means depend on both directions in many ways: to solve for their leverage would take many times as long.
    return Tables(features, groups, bulk, () if off is None else _products(off, features))


def _products(off: OffResolved, features: ConditionalFeatures) -> tuple[Products, ...]:
    """Return the classes of products of each degree, up to the last of which features have a part that counts."""
    last = max((k for k, part in enumerate(features.higher) if _counts(part, features)), default=-1)
    return tuple(products_of(off, degree) for degree in range(2, last + 3))


def _counts(part: Array, features: ConditionalFeatures) -> bool:
    """Return whether a part of higher degree counts beside the rest of the features."""
    power, noise, linear = ((features.weight * of).sum() for of in (part**2, features.variance, features.slope**2))
    return bool(power > _LEAST_NOISE * noise + _ROUNDED * linear)


def _vectors(*vectors: Array) -> Array:
    """Return those of some vectors that are not zero, shape (vectors, special)."""
    kept = [each for each in vectors if each.any()]
    return np.array(kept).reshape(len(kept), len(vectors[0]))


def _check_spectrum(problem: Problem, step: StepStatistics, d: float) -> None:
    """Refuse inputs of which a single direction is so long that the features are curved along it."""
    if step.correlated is None or (problem.inputs is None and not problem.is_damped):
        return
    largest = float(step.correlated.spectrum.eigenvalue.max())
    if largest > _LARGEST_EIGENVALUE * d:
        if problem.inputs is None:
            least = round(1 / _LARGEST_EIGENVALUE)
            raise InvalidInput("d", problem.d, f"at least {least} for a damped step, in theory")
        allowed = f"eigenvalues of at most d/{round(1 / _LARGEST_EIGENVALUE)}: features bend along directions with more"
        raise InvalidInput("inputs", f"{problem.inputs}, of which the largest is {largest:.3g}", allowed)


def stacked(members: Sequence[Tables]) -> Tables:
    """Return tables as one, with a leading axis for the batch, those of smaller shapes filled up.

    What is added are nodes and groups of a weight that is none, with noise of variance one for features and labels, and
    directions of no share. They change nothing else of the solution. The features of all tables follow as many lengths,
    and all or none have a spike direction that is resolved with the bulk.
    """
    return Tables(
        _stacked([t.features for t in members]),
        _stacked([t.groups for t in members]),
        _stacked([t.bulk for t in members]),
        tuple(_stacked(list(each)) for each in zip(*(t.products for t in members), strict=True)),
        tuple(_stacked(list(each)) for each in zip(*(t.along_means for t in members), strict=True)),
    )


def _stacked(tables: Sequence[_Table]) -> _Table:
    kind = type(tables[0])
    return kind(*(_filled_up([getattr(t, f.name) for t in tables], _FILL.get(f.name, 0.0)) for f in fields(kind)))


def _filled_up(arrays: Sequence[Array], value: float) -> Array:
    """Return arrays of one or two axes as a stack of the largest shape, with a value where there is nothing."""
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:
        return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)
    found = np.full((len(arrays), *map(max, zip(*shapes, strict=True))), value)
    for whole, array in zip(found, arrays, strict=True):
        whole[tuple(map(slice, array.shape))] = array
    return found
