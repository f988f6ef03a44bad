"""Directions of several readouts: what they know of matrices that do not commute, and the numerics behind them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.gaussian import hermite_rule, moments, scalar_function
from gradstep.theory.neurons import readout_directions
from gradstep.theory.neurons.readout_directions import ManyReadouts, TwoReadouts, laws_of_sums
from gradstep.theory.neurons.row_rules import diagonal_bounds, resolved_law, rules
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.weighted_samples import residual_law
from gradstep.theory.together import result_of

LEVELS = gs.Inputs([4, 2, 1, 0.5, 0.25], [0.05, 0.15, 0.25, 0.35, 0.2], [0.2, 0.3, 0.2, 0.2, 0.1])
#: Readouts with their shares: of both signs, with a mean.
VALUES, SHARES = np.array([-1.0, 2.0]), np.array([0.3, 0.7])
SECOND = float(SHARES @ VALUES**2)
#: Where the fit has its poles.
Z = -np.array([0.01, 0.1, 0.7, 6.0, 60.0]) * (1 - 0.01j)
RATIO, NOISE = 1 / 3.52, 0.1


def two(values=VALUES, shares=SHARES, own=(1.0, 1.0)):
    return TwoReadouts(values / math.sqrt(float(shares @ values**2)), shares, np.array(own))


def mean_law(k=0.26, t=0.1, values=VALUES, shares=SHARES):
    """Return the mean law of rows that samples with odd residuals stretch."""
    link = scalar_function("x")
    samples = CorrelatedSamples(residual_law(link, 0.0, NOISE**2), RATIO, moments(link).linear, Spectrum.of(LEVELS))
    first, second = float(shares @ values), float(shares @ values**2)
    return StretchedLaw(samples, k * first, k * math.sqrt(second), t * second)


def rules_of(law, readouts, values=VALUES, refine=1):
    frame = law.samples.frame(law.samples.alignment)
    resolved = result_of(resolved_law(law, frame, refine, values=values, readouts=readouts))
    return frame, result_of(rules(resolved))


def directions(law, readouts, values=VALUES, refine=1):
    frame, found = rules_of(law, readouts, values, refine)
    of_all = readouts.at(found.nodes, found.diagonals)
    along = readouts.at(found.special, found.special_diagonals)
    return frame, found, np.maximum(of_all, 0), np.maximum(along, 0)


@pytest.mark.parametrize("weight", [SHARES, [1, 0], [0, 1], [0.6, 0.4], [0.15, 0.85]])
def test_resolvents_of_all_weighted_sums_are_those_of_the_laws(weight):
    # Only the first three are among those that the directions were made from.
    law, readouts, weight = mean_law(), two(), np.array(weight, dtype=float)
    frame, found, of_all, along = directions(law, readouts)
    a, square = weight @ readouts.value, weight @ readouts.value**2
    exact = StretchedLaw(law.samples, law.root * a, law.root * math.sqrt(square), law.strength * square)
    trace = (found.share / (weight @ of_all - Z[:, None])).sum(axis=1)
    np.testing.assert_allclose(trace, exact.transform(Z)[0], rtol=2e-3)
    between = np.stack([(found.overlap.T / (weight @ along - z)) @ found.overlap for z in Z])
    expected = exact.between(Z, frame)[0]
    scale = np.sqrt(np.abs(np.diagonal(expected, axis1=1, axis2=2)))
    assert np.all(np.abs(between - expected) < 4e-3 * scale[:, :, None] * scale[:, None])


def test_one_basis_alone_misses_them():
    law, readouts = mean_law(), two()
    frame = law.samples.frame(law.samples.alignment)
    found = result_of(rules(result_of(resolved_law(law, frame, 1, values=VALUES))))
    of_all = readouts.at(found.nodes, found.diagonals)[0]
    exact, _ = laws_of_sums(law, readouts)[1]
    trace = (found.share / (of_all - Z[:, None])).sum(axis=1)
    assert np.abs(trace / exact.transform(Z)[0] - 1).max() > 0.05


def drawn_covariances(law, values, d, seed):
    """Return the covariances of readouts in a draw of the samples, the spike direction, and the teacher's rest."""
    rng = np.random.default_rng(seed)
    n = round(d / RATIO)
    share = np.round(np.cumsum(LEVELS.share) * d).astype(int)
    c = np.repeat(LEVELS.eigenvalues, np.diff(share, prepend=0))
    part = np.repeat(np.array(LEVELS.teacher) / np.diff(share, prepend=0), np.diff(share, prepend=0))
    b = np.sqrt(part) * rng.choice([-1, 1], d)
    z = rng.standard_normal((n, d))
    r = z @ b + NOISE * rng.standard_normal(n)
    stretched = (z.T * r) @ z / n
    squares = (z.T * (r**2 / np.mean(r**2))) @ z / n
    g = c * (z.T @ r / n)
    v = g / np.linalg.norm(g)
    rest = b - v * (v @ b)
    found = []
    for a in values:
        turned = np.eye(d) + law.root * a * c[:, None] * stretched
        found.append((turned * c) @ turned.T + law.strength * a**2 * c[:, None] * squares * c)
    return np.array(found), v, rest / np.linalg.norm(rest)


def test_fits_with_matrices_of_weights_are_those_of_drawn_matrices():
    # Features with two slopes have matrices of weights: (1 + sum_a W_a x Sigma_a)^-1. No direction was made from them.
    law, readouts = mean_law(), two()
    _, found, of_all, along = directions(law, readouts)
    weights = [0.5 * np.array([[1, -0.5], [-0.5, 0.25]]), 0.8 * np.array([[1, 0.6], [0.6, 0.36]])]
    mean, error = of_drawn_matrices(law, readouts.value, weights)
    expected = of_directions(found, weights, of_all, along)
    assert np.all(np.abs(mean - expected) < 4 * error + [[0.005], [0.02]])


def of_directions(found, weights, of_all, along):
    """Return the mean of ``(1 + sum_a W_a x Sigma_a)^-1`` over all directions and along the teacher's rest."""

    def inverse(values):
        return np.linalg.inv(np.eye(2) + np.einsum("aij,an->nij", weights, values))

    trace = np.einsum("n,nii->i", found.share, inverse(of_all))
    return np.stack([trace, np.einsum("n,nii->i", found.overlap[:, 1] ** 2, inverse(along))])


def of_drawn_matrices(law, values, weights, d=400, seeds=6):
    """Return the same of drawn matrices, and its standard error."""
    measured = []
    for seed in range(seeds):
        sigma, _, zeta = drawn_covariances(law, values, d, seed)
        whole = np.eye(2 * d) + sum(np.kron(w, s) for w, s in zip(weights, sigma, strict=True))
        resolvent = np.linalg.inv(whole).reshape(2, d, 2, d)
        measured.append(
            np.stack([np.einsum("inin->i", np.abs(resolvent)) / d, np.einsum("inim,n,m->i", resolvent, zeta, zeta)])
        )
    return np.mean(measured, axis=0), np.std(measured, axis=0, ddof=1) / math.sqrt(seeds)


def many(law, values, shares, own=1.0):
    own = np.broadcast_to(own, values.shape)
    return ManyReadouts.of(values, shares, own, diagonal_bounds(law), turned=bool(law.root < 0))


GAUSSIAN = hermite_rule(40)
#: Values that stand for Gaussian readouts where rules are made.
FEW = np.array([-math.sqrt(3), 0.0, math.sqrt(3)])


def variances(values, nodes, diagonals):
    """Return the variances of readouts over their root mean square, of mean zero."""
    return diagonals[0] + 2 * np.outer(values, diagonals[1]) + np.outer(values**2, nodes - diagonals[0])


@pytest.mark.parametrize(("k", "t"), [(0.26, 0.1), (0.6, 0.3)])
def test_fits_of_gaussian_readouts_are_those_of_drawn_matrices(k, t):
    values, shares = GAUSSIAN
    law = mean_law(k, t, values, shares)
    # Neurons of larger readouts have smaller weights, and slopes that depend on the sign.
    slopes = np.stack([np.ones_like(values), 0.8 * np.tanh(values)])
    weights = 1.5 * np.einsum("a,ia,ja->aij", shares / (1 + values**2), slopes, slopes)
    # Covariances are quadratic in the readout, so that those of three readouts have all of them.
    of_three = np.linalg.inv(np.vander(FEW, increasing=True).T) @ np.vander(values, 3, increasing=True).T
    mean, error = of_drawn_matrices(law, FEW, np.einsum("sa,aij->sij", of_three, weights))
    off = []
    for readouts in (many(law, values, shares), None):
        _, found = rules_of(law, readouts, FEW)
        of_all = variances(values, found.nodes, found.diagonals)
        along = variances(values, found.special, found.special_diagonals)
        off.append(np.abs(of_directions(found, weights, of_all, along) - mean))
    assert np.all(off[0] < 4 * error + [[5e-4], [5e-3]])
    # The diagonals alone miss the means over all directions.
    assert np.all(off[1][0] > 10 * (error[0] + 5e-5))


@pytest.mark.parametrize(
    ("values", "shares"), [(GAUSSIAN[0], GAUSSIAN[1]), (np.array([-1, 0.5, 2]), np.full(3, 1 / 3))]
)
def test_choices_leave_every_readout_a_variance_and_begin_with_the_known_diagonals(values, shares):
    scale = math.sqrt(float(shares @ values**2))
    law = mean_law(values=values, shares=shares)
    readouts = many(law, values / scale, shares)
    nodes = np.array([0.1, 0.6, 2.0, 9.0])
    known = readouts.bounds.of_eigenvectors(nodes, np.full(4, 0.25), np.stack([0.5 * nodes, 0.1 * nodes]))
    choices, cost = readouts.choices(nodes, known, 1)
    np.testing.assert_allclose(choices[..., 0], known, rtol=1e-12)
    assert np.all(cost >= cost[:, :1])
    plain, stretched = choices
    rest = nodes[:, None] - plain - 2 * readouts.mean * stretched
    for value in (*values / scale, -3.0, 3.0):
        assert np.all(plain + 2 * value * stretched + value**2 * rest > -1e-9 * nodes[:, None])


def test_mirrored_readouts_have_the_same_choices():
    values = np.array([-1, 0.5, 2])
    law, mirrored = (mean_law(k, values=v, shares=np.full(3, 1 / 3)) for k, v in ((0.26, values), (-0.26, -values)))
    nodes, known = np.array([0.6, 2.0, 9.0]), np.array([[0.5, 1.0, 3.0], [0.1, -0.2, 1.0]])
    one, other = (many(of, v / math.sqrt(1.75), np.full(3, 1 / 3)) for of, v in ((law, values), (mirrored, -values)))
    (first, cost), (second, same) = one.choices(nodes, known, 1), other.choices(nodes, known * [[1], [-1]], 1)
    np.testing.assert_array_equal(first, second * np.array([1, -1])[:, None, None])
    np.testing.assert_array_equal(cost, same)
    np.testing.assert_array_equal(one.sums, other.sums * [1, -1, 1])


def test_few_shares_keep_all_sums():
    rng = np.random.default_rng(0)
    rows, share = 1 / (rng.random(300) + np.geomspace(0.01, 10, 40)[:, None]), rng.random(300)
    share[::3] = 0
    found = readout_directions._sparse(rows, share)
    assert np.all(found >= 0)
    assert not found[::3].any()
    # What is left out are combinations of the sums that are small.
    change = np.linalg.norm(np.divide(found, share, out=np.ones(300), where=share > 0) - 1)
    least = readout_directions._SPARSE * np.linalg.norm(rows * share, 2)
    assert np.linalg.norm(rows @ (found - share)) < 1.01 * least * change
    assert np.count_nonzero(found) <= np.linalg.matrix_rank(rows, rtol=1e-6)


@pytest.mark.parametrize("gap", [1e-2, 1e-4])
def test_two_readouts_that_are_nearly_one_have_its_variances(gap):
    values, shares = np.array([1 - gap, 1 + gap]), np.array([0.5, 0.5])
    readouts = two(values, shares)
    _, found, of_all, along = directions(mean_law(values=values, shares=shares), readouts, values)
    for variance, nodes in ((of_all, found.nodes), (along, found.special)):
        assert np.abs(shares @ variance / nodes - 1).max() < 1e-6
    spread = found.share @ (of_all[0] - of_all[1]) ** 2 / (found.share @ found.nodes) ** 2
    # Costs are not zero, so that a spread of a hundredth is not told from none.
    assert spread < 20 * gap**2 + 1e-4


@given(
    a=st.floats(-3, 3).filter(lambda x: abs(x) > 0.05),
    b=st.floats(-3, 3),
    share=st.floats(0.05, 0.95),
    own=st.floats(0.7, 1.3),
)
def test_at_the_ends_one_readout_has_no_variance(a, b, share, own):
    if abs(a - b) < 0.05:
        return
    values, shares = np.array([a, b]), np.array([share, 1 - share])
    readouts = two(values, shares, (own, 1.0))
    at = readouts.at(np.ones(2), readouts.ends)
    np.testing.assert_allclose(np.diagonal(at), 0, atol=1e-9 * (1 + np.abs(readouts.ends).max()))
    if own == 1.0:
        np.testing.assert_allclose(shares @ at, 1, rtol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_frames_are_tight_and_know_every_symmetric_matrix(count):
    frame = readout_directions._tight_frame(count)
    np.testing.assert_allclose(frame.T @ frame, np.eye(count), atol=1e-14)
    projections = frame[:, :, None] * frame[:, None]
    assert np.linalg.matrix_rank(projections.reshape(len(frame), -1)) == count * (count + 1) // 2


def shares_problem(seed):
    """Return resolvents of some variances, what six eigenvalues have, and costs."""
    rng = np.random.default_rng(seed)
    kept, variance = np.sqrt(rng.dirichlet(np.ones(6))), np.exp(rng.normal(size=120))
    weight = np.repeat(np.square(kept), 20)
    rows = weight / (variance + np.exp(np.linspace(-3, 3, 25))[:, None])
    aim = rows @ np.repeat(rng.dirichlet(np.full(20, 0.1), size=6), 1, axis=1).ravel()
    return rows / aim[:, None], np.ones(25), 30 * kept, 1e-6 * weight


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_a_gram_matrix_of_more_rows_is_that_of_all_of_them(share):
    """Whether many rows come and go, or few, or none."""
    random = np.random.default_rng(3)
    rows, before = random.standard_normal((200, 7)), random.random(200) < 0.5
    now = before ^ (random.random(200) < share)
    found = readout_directions._gram_of_more(rows[before].T @ rows[before], rows, before, now)
    assert found == pytest.approx(rows[now].T @ rows[now], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_nearest_shares_are_those_of_an_active_set(seed):
    rows, aim, kept, cost = shares_problem(seed)
    found = readout_directions._nearest_shares(rows, aim, kept, cost)
    groups, known = np.repeat(np.diag(kept), 20, axis=1), np.tile(np.arange(20) == 0, 6)
    whole = np.concatenate([rows, groups, np.diag(np.sqrt(cost))])
    right = np.concatenate([aim, kept, np.sqrt(cost) * known])
    exact, _ = nnls(whole, right, maxiter=10**5)
    # Combinations of the resolvents that are small do not count.
    np.testing.assert_allclose(rows @ found, rows @ exact, atol=2e-5)
    np.testing.assert_allclose(found.reshape(6, 20).sum(axis=1), 1, atol=1e-4)


def test_the_part_of_a_step_is_the_lowest_where_one_piece_is_far_steeper_than_the_next():
    """The minimum is next to zero, where the slope of the pieces changes by sixteen digits; they end at 0 and .44."""
    off, step = np.array([-0.23405125, 0.97387568]), np.array([-0.94277289, 1.99338592])
    pull, of_pull = np.zeros(2), np.array([4.84400559e07, -8.47693656e08])
    assert 0 <= readout_directions._lowest(off, pull, step, of_pull) < 1e-11
    assert readout_directions._lowest(off, pull, step, np.zeros(2)) == pytest.approx(off @ step / (step @ step))
    assert readout_directions._lowest(off, pull, 0.1 * step, np.zeros(2)) == 1.0


def test_an_active_set_that_does_not_end_is_refused(monkeypatch):
    monkeypatch.setattr("scipy.optimize.nnls", lambda rows, aim, maxiter: nnls(rows, aim, maxiter=1))
    with pytest.raises(NotConverged, match="variances of several readouts"):
        readout_directions._sparse(np.random.default_rng(0).normal(size=(5, 20)), np.ones(20))


def test_shares_that_are_not_found_are_refused(monkeypatch):
    monkeypatch.setattr(readout_directions, "_STEPS", 1)
    with pytest.raises(NotConverged, match="variances of several readouts"):
        readout_directions._nearest_shares(*shares_problem(0))


def test_diagonals_at_a_place_are_at_that_place():
    readouts = two(own=(1.1, 0.9))
    eigenvalue, place = np.array([0.3, 2.0, 5.0]), np.array([0.01, 0.4, 0.97])
    found = readouts.place(eigenvalue, readouts.diagonals(eigenvalue, place))
    np.testing.assert_allclose(found, place, rtol=1e-10)


@pytest.mark.parametrize("place", [0.0, 1e-12, 0.3, 1.0])
def test_places_are_between_the_ends_and_cost_more_away_from_the_known_one(place):
    choices, cost = readout_directions._choices(np.array([place]), 1)
    assert choices[0, 0] == place
    assert np.all((choices >= 0) & (choices <= 1))
    assert np.all(np.isfinite(cost) & (cost >= cost[0, 0]))


def test_fewer_directions_keep_the_moments():
    rng, nodes = np.random.default_rng(0), np.array([0.5, 3.0])
    choices, _ = readout_directions._choices(np.array([0.3, 0.6]), 1)
    each = choices.shape[1]
    eigenvalue, share, place = np.repeat(nodes, each), rng.dirichlet(np.ones(2 * each)), choices.ravel()
    found = readout_directions._fewer(eigenvalue, share, place, nodes)
    assert len(found[0]) == 2 * readout_directions._GAUSS
    for node in nodes:
        one, other = eigenvalue == node, found[0] == node
        for power in range(2 * readout_directions._GAUSS):
            assert share[one] @ place[one] ** power == pytest.approx(
                found[1][other] @ found[2][other] ** power, rel=1e-9
            )


BASE = gs.Problem(
    activation="x + 0.3*(x**2-1)", teacher="x", d=400, width=900, n_step=1400, n=500, eta=gs.Step(0.33, 0.5),
    ridge=90.0, noise=0.1, readout={-1.0: 0.3, 2.0: 0.7}, inputs=LEVELS,
)  # fmt: skip


@pytest.mark.parametrize("share", [1e-9, 1e-6])
@pytest.mark.parametrize("changes", [{}, {"output_scale": "1/sqrt(N)"}, {"damping": 0.5}])
def test_a_readout_of_hardly_any_neurons_changes_nothing(share, changes):
    problem = BASE.replace(**changes)
    one = gs.predict(problem.replace(readout={2.0: 1.0}))
    two = gs.predict(problem.replace(readout={-1.0: share, 2.0: 1 - share}))
    # The axes of the vectors are not those of one readout.
    assert two.test_error == pytest.approx(one.test_error, rel=5e-4)
    assert two.train_error == pytest.approx(one.train_error, rel=5e-4)


def test_a_third_readout_of_hardly_any_neurons_changes_nothing():
    two, three = (
        gs.predict(BASE.replace(readout=of)) for of in (BASE.readout, {-1.0: 0.3, 2.0: 0.7 - 1e-8, 5.0: 1e-8})
    )
    assert three.test_error == pytest.approx(two.test_error, rel=1e-6)
    assert three.train_error == pytest.approx(two.train_error, rel=1e-6)


@pytest.mark.parametrize("output_scale", ["1/N", "1/sqrt(N)"])
def test_inputs_in_a_quarter_of_the_directions_are_isotropic_in_a_quarter_of_the_dimension(output_scale):
    # The isotropic equations have other rules and, for several readouts, another approximation.
    flat = BASE.replace(inputs=gs.Inputs([4.0, 0.0], [0.25, 0.75], [1.0, 0.0]), output_scale=output_scale)
    small = flat.replace(d=100, inputs=None, eta=gs.Step(4 * 0.33, 0.5))
    one, other = gs.predict_many([flat, small])
    assert one.test_error == pytest.approx(other.test_error, rel=0.02)


@pytest.mark.parametrize("near", [{-1.0: 0.3, 2.0: 0.35, 2.02: 0.35}, {-1.0: 0.15, -1.02: 0.15, 2.0: 0.7}])
def test_three_readouts_of_which_two_are_nearly_alike_are_as_two(near):
    # Two readouts have other sums and other variances to choose from than three. With the diagonals alone the errors of
    # three would be five and nine per cent smaller.
    two, three = (gs.predict(BASE.replace(readout=readout)) for readout in (BASE.readout, near))
    assert three.test_error == pytest.approx(two.test_error, rel=5e-3)
    assert three.train_error == pytest.approx(two.train_error, rel=5e-3)


@pytest.mark.parametrize("values", [(-0.5, 0.5, 1.5), (-1.4, 1.0, 0.2), (1.4, -1.0, -0.2)])
@pytest.mark.parametrize("gap", [1e-12, 1e-7])
def test_a_value_that_passes_the_mean_or_the_root_mean_square_changes_nothing(values, gap):
    """The second of three values is their mean, or of the size of their root mean square."""
    low, middle, high = values
    shares = (0.3, 0.4, 0.3) if values[0] == -0.5 else (0.25, 0.5, 0.25)
    below, at, above = (
        gs.predict(BASE.replace(readout=dict(zip((low, middle + change, high), shares, strict=True))))
        for change in (-gap, 0.0, gap)
    )
    for near in (below, above):
        # Without values that count in part they change by 5e-4 to 3e-3, and rounding changes them by less than 1e-5.
        assert near.test_error == pytest.approx(at.test_error, rel=1e-5)
        assert near.train_error == pytest.approx(at.train_error, rel=1e-5)


def test_a_step_of_zero_gives_both_readouts_the_rows_of_one():
    one, two = (gs.predict(BASE.replace(eta=0.0, readout=readout)) for readout in ({2.0: 1.0}, BASE.readout))
    assert two.test_error == pytest.approx(one.test_error, rel=1e-7)


def test_a_readout_of_zero_keeps_the_rows_that_it_had():
    # Neurons that do not move have the covariance C.
    values, shares = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    law, readouts = mean_law(values=values, shares=shares), two(values, shares)
    _, found, of_all, _ = directions(law, readouts, values)
    trace = (found.share / (of_all[0] - Z[:, None])).sum(axis=1)
    c = np.array(LEVELS.eigenvalues)
    exact = (np.array(LEVELS.share) / (c - Z[:, None])).sum(axis=1)
    np.testing.assert_allclose(trace, exact, rtol=5e-3)
