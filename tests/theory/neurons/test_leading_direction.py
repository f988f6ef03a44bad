"""The leading direction of correlated inputs resolved: the same limit, the rows' law along it, and the network."""

import numpy as np
import pytest
from resolved_plane import errors_of
from scipy.optimize import brentq

import gradstep as gs
from gradstep.gaussian import moments
from gradstep.problem import link_of
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.equivalent import tables as tables_module
from gradstep.theory.equivalent.tables import sizes_of, stepped_networks
from gradstep.theory.neurons.bulk import bulk_law
from gradstep.theory.neurons.groups import neuron_groups
from gradstep.theory.neurons.leading_direction import (
    groups_along_leading,
    leading_direction,
    longest_directions,
    share_along_leading,
    without_leading,
)
from gradstep.theory.neurons.row_rules import mean_law
from gradstep.theory.step.class_variances import class_variances, leading_part_of_norm, leading_variance
from gradstep.theory.together import result_of

# A step stretches the rows most along the leading direction of these inputs.
STEEP = gs.Problem(
    activation="tanh(x)+.3*x**2",
    teacher=".652*(x-1)",
    d=300,
    width=852,
    n=348,
    n_step=357,
    ridge=31.8,
    noise=0.39,
    eta=gs.Step(0.39, 0.5),
    readout="constant",
    inputs=gs.Inputs.power_law(0.5, d=300),
)
TWO_LEVELS = gs.Inputs(eigenvalues=[0.25, 1.75], teacher=[0.3, 0.7])


def share(problem, *, stretched_by_teacher=True):
    """Return the weight of the description that resolves the leading direction."""
    ((_, network), *_) = result_of(stepped_networks(problem))
    quadratic = moments(link_of(problem.teacher)).quadratic if stretched_by_teacher else 0.0
    return share_along_leading(network.step.resolved, problem.readout, quadratic, sizes_of(problem).d)


def bulk_of(problem, step, groups):
    """Return the bulk of a problem whose leading direction is resolved."""
    longest = longest_directions(step, problem.readout, problem.d)
    return result_of(bulk_law(problem, step, groups, problem.d, problem.d, longest=longest))


def test_the_leading_direction_is_resolved_only_where_rows_have_much_of_their_norm_in_it():
    assert share(STEEP) == 1
    assert 0 < share(STEEP.replace(eta=gs.Step(0.3, 0.5))) < 1
    assert share(STEEP.replace(eta=0.1)) == 0
    assert share(STEEP.replace(inputs=None)) == 0
    assert share(STEEP.replace(inputs=None, damping=0.3)) == 0
    assert share(STEEP.replace(inputs=TWO_LEVELS)) == 0


def test_variances_of_the_classes_are_those_of_drawn_rows():
    problem = STEEP.replace(width=2000, readout={0.5: 0.5, 2: 0.5}, eta=gs.Step(0.268, 0.5))
    ((_, network), *_) = result_of(stepped_networks(problem))
    values = np.array([0.5, 2.0])
    predicted = class_variances(network.step, values, values**2)
    inputs = problem.inputs.at_dimension(problem.d)
    eigenvalue = np.repeat(inputs.eigenvalues, inputs.counts(problem.d))
    measured = []
    for seed in range(16):
        drawn = gs.Network(problem, seed)
        rows, readout = np.asarray(drawn.after) * np.sqrt(eigenvalue), np.asarray(drawn.readout)
        measured.append([problem.d * rows[readout == a].var(axis=0, ddof=1) for a in values])
    # The first class is one direction, the last has many.
    counts = np.cumsum(inputs.counts(problem.d))
    first, last = np.array(measured)[..., 0], np.array(measured)[..., counts[-2] :].mean(axis=-1)
    for found, of_class in ((first, predicted[:, 0]), (last, predicted[:, -1])):
        error = found.std(axis=0, ddof=1) / len(found) ** 0.5
        assert np.abs((found.mean(axis=0) - of_class) / error).max() < 3.5
    # The stretch of the first direction is no small thing: rows have it with the opposite sign.
    assert predicted[1, 0] > 2 * inputs.eigenvalues[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"readout": {0.5: 0.5, 2: 0.5}},
        {"activation": "tanh", "teacher": "sin(x)"},
        {"activation": "max(x,0)", "teacher": "x-.5*x**2", "readout": {-1: 0.3, 2: 0.7}},
        {"damping": 0.3},
        {"activation": "tanh(x)+.3*(x**2-1)", "output_scale": "1/sqrt(N)"},
    ],
    ids=["even and odd", "two readouts", "odd", "kinks", "damped", "own output"],
)
def test_one_direction_and_two_have_the_same_limit(changes, monkeypatch):
    """In the limit no direction has a part of a row that counts: the plane then has to make no difference."""
    big = {"d": 10**7, "width": 15 * 10**6, "n_step": 3 * 10**7, "n": 25 * 10**6, "ridge": 1e5, "inputs": TWO_LEVELS}
    problem, found = STEEP.replace(**{**big, **changes}), []
    # With other nodes in the plane the rules of both differ by up to 2e-3, for readouts of several values.
    monkeypatch.setattr(tables_module, "_COARSER", 1.0)
    monkeypatch.setattr(tables_module, "longest_directions", lambda *_: None)
    for weight in (0.0, 1.0):
        monkeypatch.setattr(tables_module, "share_along_leading", lambda *_, weight=weight: weight)
        ((_, network),) = result_of(stepped_networks(problem, plane=True))
        assert network.tables.in_plane is bool(weight)
        found.append(errors_of(network, problem))
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_all_other_directions_have_what_the_leading_one_leaves():
    ((_, network), *_) = result_of(stepped_networks(STEEP))
    step, groups, d = network.step.resolved, network.tables.groups, 300.0
    bulk = bulk_of(STEEP, step, groups)
    direction, one = leading_direction(groups, bulk, step, STEEP.readout), np.ones(1)
    assert direction @ direction == pytest.approx(1)
    # The spike has a part along it, which is far from all of it.
    assert 0.3 < direction @ bulk.spike < 0.9
    variance = bulk.special_profile @ direction**2
    assert variance == pytest.approx(leading_variance(step, one, one)[0], rel=0.3)
    less, without = without_leading(groups, bulk, direction, step.mean_variance(one, one), d)
    assert without.share.sum() == pytest.approx(1)
    for level in (0.1, 1.0, 10.0):
        # What the fit asks of the classes: sums over all directions but one. That one is the longest by the rule of the
        # classes here, and by the rule of the special directions on the right.
        mine = (d - 1) * ((1 / (without.profile + level)) @ without.share)
        assert mine == pytest.approx(d * ((1 / (bulk.profile + level)) @ bulk.share) - 1 / (variance + level), rel=1e-3)
    # The norm fluctuates less, around the same mean, and by no more than the leading direction leaves of the squares.
    assert less.variance - less.norm_deviation == pytest.approx(groups.variance - groups.norm_deviation)
    kept = less.norm_deviation**2 / groups.norm_deviation**2
    assert np.all(kept > 0.02)
    assert np.all(kept < 1 - leading_part_of_norm(step, one, one, d, 0.0)[0] + 0.1)
    # Components of a row stay what they are, in units of its length.
    assert without.pull * np.sqrt(less.variance)[:, None] == pytest.approx(
        bulk.pull * np.sqrt(groups.variance)[:, None]
    )


@pytest.mark.parametrize(
    "changes", [{}, {"readout": "gaussian"}, {"damping": 0.3}], ids=["one readout", "Gaussian", "damped"]
)
def test_what_is_left_does_not_depend_on_the_rule(changes):
    """The sums over all other directions follow from resolvents of the rows' law, which has no nodes."""
    problem, d = STEEP.replace(**{"eta": gs.Step(0.411, 0.5)} | changes), 300.0
    ((_, network), *_) = result_of(stepped_networks(problem))
    step, readout = network.step.resolved, problem.readout
    groups = neuron_groups(step, readout, d, odd=False, resolve=True)
    mean, law = step.mean_variance(*groups.readouts(readout)), mean_law(step.correlated, step, readout)

    def all_poles(level):
        """Return all eight poles of the part that is taken, and the mean resolvent there."""
        upper = level * np.exp(1j * np.pi * np.array([1, 3, 5, 7]) / 8)
        found = law.transform(upper)[0]
        return np.concatenate([upper, upper.conj()]), np.concatenate([found, found.conj()])

    def taken(logarithm):
        poles, resolved = all_poles(np.exp(logarithm))
        return 1 + (poles * resolved).sum().real / 8 - 1 / d

    longest = longest_directions(step, readout, d)
    guess = np.log(longest.level * law.mean)
    poles, resolved = all_poles(np.exp(brentq(taken, guess - 1, guess + 1, xtol=1e-12)))
    at = law.mean * np.array([0.01, 0.1, 1.0, 10.0]) * (-1 + 0.3j)
    whole = law.transform(at)[0]
    exact = -(poles * (resolved - whole[:, None]) / (poles - at[:, None])).sum(axis=1) / 8
    # The norm of what is left fluctuates with the sum of the squares.
    exact = np.append(exact, -(poles**3 * resolved).sum() / 8)

    def off(longest):
        bulk = result_of(bulk_law(problem, step, groups, d, d, longest=longest))
        direction = leading_direction(groups, bulk, step, readout)
        _, others = without_leading(groups, bulk, direction, mean, d)
        variance = law.mean * (groups.weight * mean) @ others.profile / (groups.weight @ mean)
        functions = np.concatenate([1 / (variance - at[:, None]), variance[None] ** 2])
        return np.abs((1 - 1 / d) * functions @ others.share / exact - 1)

    assert off(longest).max() < 1e-5
    # A rule that does not know the law near the level misses the squares.
    assert off(longest._replace(level=0.1)).max() > 1e-4


def test_the_longest_direction_of_two_readouts_has_the_diagonals():
    """All others make up for it: together they have the resolvent that the law has."""
    problem = STEEP.replace(readout={0.5: 0.5, 2: 0.5})
    ((_, network), *_) = result_of(stepped_networks(problem))
    step, groups = network.step.resolved, network.tables.groups
    bulk, law = bulk_of(problem, step, groups), mean_law(step.correlated, step, problem.readout)
    assert set(bulk.longest) == {0.0, 1.0}
    assert 300 * bulk.share @ bulk.longest == pytest.approx(1)
    mean = step.mean_variance(*groups.readouts(problem.readout))
    variance = law.mean * (groups.weight * mean) @ bulk.profile / (groups.weight @ mean)
    at = law.mean * np.array([0.1, 1.0, 10.0]) * (-1 + 0.3j)
    assert (1 / (variance - at[:, None])) @ bulk.share == pytest.approx(law.transform(at)[0], rel=2e-3)
    # Rows of one readout each have a variance along it that is near that of the class.
    taken = bulk.profile @ (bulk.share * bulk.longest) * 300
    assert taken == pytest.approx(leading_variance(step, *groups.readouts(problem.readout)), rel=0.25)


def test_errors_of_two_readouts_do_not_depend_on_how_fine_rules_are():
    """Half of the readouts are zero, and rows of the others have most of their length in few directions."""
    problem = gs.Problem(
        activation="H1+.4*H2+.3*H3",
        teacher="0.642*tanh(2*x)",
        d=200,
        width=354,
        n_step=204,
        n=100,
        eta=gs.Step(1.17, 0.5),
        ridge=75,
        noise=0.25,
        readout={0: 0.5, 1: 0.5},
        output_scale="1/sqrt(N)",
        inputs=gs.Inputs.power_law(0.58, d=200),
    )
    # When the directions were spread before the longest one was taken, this was 2.4 per cent.
    # Cells of the directions, of which products are made, see the nodes of the rules.
    assert gs.predict(problem, refine=2).test_error == pytest.approx(gs.predict(problem).test_error, rel=4e-3)


def test_errors_do_not_jump_where_a_rule_gets_a_node():
    """Where the longest nodes of the rule were cut, errors jumped by .4 % between the second and the third step."""
    steps = [STEEP.replace(eta=gs.Step(eta, 0.5)) for eta in (0.41, 0.4105, 0.411, 0.4115)]
    errors = np.log([[each.test_error, each.train_error] for each in gs.predict_many(steps)])
    assert np.abs(np.diff(errors, 2, axis=0)).max() < 1e-5
    finer = gs.predict(steps[2], refine=2)
    assert np.log([finer.test_error, finer.train_error]) == pytest.approx(errors[2], abs=1e-5)


def test_errors_do_not_jump_where_a_node_is_rounding():
    """A direction of a rule's span that is mostly rounding made errors jump by .2 % between two of these steps."""
    steep = gs.Problem(
        activation="tanh(x) + 0.3*hermite2(x)",
        teacher="1.29*(x + 1.5)",
        d=200,
        width=472,
        n_step=636,
        n=182,
        eta=gs.Step(1.66, 0.5),
        ridge=10.78,
        noise=0.37,
        readout={0.5: 0.5, 2.0: 0.5},
        initial_weights="sphere",
        output_scale="1/sqrt(N)",
        inputs=gs.Inputs.power_law(0.6, d=200),
    )
    steps = [steep.replace(eta=gs.Step(1.66 * (1 + k * 1e-9), 0.5)) for k in (0, 3)]
    errors = np.log([[each.test_error, each.train_error] for each in gs.predict_many(steps)])
    assert np.abs(errors - errors[0]).max() < 1e-6


def test_every_direction_has_the_variance_of_the_rows():
    """Along the spike and the leading direction rows have half of their mean square; other directions keep theirs."""
    ((_, network), *_) = result_of(stepped_networks(STEEP.replace(eta=gs.Step(0.5, 0.5))))
    step, groups, d = network.step.resolved, network.tables.groups, 300.0
    bulk = bulk_of(STEEP, step, groups)
    found, others = groups_along_leading(groups, bulk, 0.0, step, STEEP.readout, d)
    mean = step.mean_variance(np.ones(1), np.ones(1))[0]
    middle = found.variance.reshape(2, -1).mean(axis=0)
    count = len(bulk.share)
    for part, whole in ((others.profile[:, :count], bulk.profile), (others.special_profile, bulk.special_profile)):
        variances = middle[:, None] * part.reshape(2, len(middle), -1)
        assert variances == pytest.approx(mean * np.repeat(whole, 3, axis=0).reshape(variances.shape))
    # Each direction once: the spike, the leading one, and all that is left, but for the spike's part off both.
    weight = found.weight @ np.stack([found.projection, found.projection**2, found.rest**2, found.variance]).T
    whole = weight[1] - weight[0] ** 2 + weight[2] + weight[3]
    assert whole == pytest.approx(mean, rel=0.02)
    assert weight[3] < 0.85 * mean


def test_norms_deviate_to_both_sides_of_their_mean():
    ((_, network), *_) = result_of(stepped_networks(STEEP))
    groups = neuron_groups(network.step.resolved, STEEP.readout, 300.0, odd=False)
    half = len(groups.weight) // 2
    assert groups.norm_deviation[:half] == pytest.approx(-groups.norm_deviation[half:])
    mean = groups.variance - groups.norm_deviation
    assert mean[:half] == pytest.approx(mean[half:])
    flat = neuron_groups(network.step.resolved, STEEP.readout, 300.0, odd=False, rows="isotropic")
    assert not flat.norm_deviation.any()


@pytest.mark.parametrize(
    ("changes", "seeds", "without"),
    [
        pytest.param({}, 14, 0.08, id="constant"),
        pytest.param(
            {"readout": {0.5: 0.5, 2: 0.5}, "eta": gs.Step(0.398, 0.5)},
            24,
            0.12,
            id="two readouts",
            marks=pytest.mark.statistical,
        ),
        pytest.param(
            {"activation": "max(x,0)", "readout": {-1: 0.5, 1: 0.5}, "eta": gs.Step(1.09, 0.5)},
            24,
            -0.05,  # Here the lengths of an input make up for it: with one length for all it was too small, too.
            id="kinks",
            marks=pytest.mark.statistical,
        ),
    ],
)
def test_rows_that_follow_the_leading_direction_fit_as_networks_do(changes, seeds, without, monkeypatch):
    """Along the spike alone the error is far too small, and it does not get better with the size."""
    problem = STEEP.replace(**changes)
    measured = gs.simulate(problem, seeds=seeds, dtype="float32")["test_error"]
    error = measured.std(ddof=1) / seeds**0.5
    predicted = gs.predict(problem).test_error
    assert abs(predicted - measured.mean()) < 3 * error + 0.05 * predicted
    monkeypatch.setattr(tables_module, "share_along_leading", lambda *_: 0.0)
    ((_, network), *_) = result_of(stepped_networks(problem, plane=True))
    assert errors_of(network, problem)[0] < (1 - without) * measured.mean()


def test_where_the_spike_is_along_the_teacher_nothing_is_off_it():
    """Without a step the spike is taken along the teacher: no second direction is left in which the label changes."""
    inputs = gs.Inputs([30.0, 0.9], [1 / 300, 1 - 1 / 300])
    problem = STEEP.replace(activation="max(x,0)", teacher="sign(x)", inputs=inputs)
    assert share(problem.replace(eta=0.0)) == 0
    assert share(problem.replace(eta=gs.Step(0.05, 0.5))) == 1
    # A loss that asks for the law of the labels has nodes on either side of the teacher's jump.
    assert convex_prediction(problem.replace(eta=gs.Step(0.05, 0.5)), loss="logistic", channel="sign").test_error < 1.5


@pytest.mark.parametrize(
    ("readout", "initial_weights"),
    [
        pytest.param(
            readout, initial_weights, id=f"{name}-{initial_weights}", marks=() if quick else pytest.mark.statistical
        )
        for name, readout in (("constant", "constant"), ("two", {0.5: 0.5, 2: 0.5}), ("Gaussian", "gaussian"))
        for initial_weights, quick in (("gaussian", name != "two"), ("sphere", name == "two"))
    ],
)
def test_networks_that_are_the_same_have_the_same_errors(readout, initial_weights):
    """A feature may change its sign with its readout, and the inputs may change theirs."""
    problem = STEEP.replace(readout=readout, initial_weights=initial_weights)
    assert share(problem) > 0.8
    opposite = {"constant": {-1: 1.0}, "gaussian": "gaussian"}.get(str(readout), {-0.5: 0.5, -2: 0.5})
    one, other, mirrored = gs.predict_many(
        [
            problem,
            problem.replace(activation="-tanh(x)-.3*x**2", readout=opposite),
            problem.replace(activation="-tanh(x)+.3*x**2", teacher=".652*(-x-1)"),
        ]
    )
    for name in ("test_error", "train_error"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-10)
        # The rules of the classes have other nodes.
        assert getattr(mirrored, name) == pytest.approx(getattr(one, name), rel=2e-5)


# The network's own output, of order one and quadratic, stretches the rows along the leading direction.
QUADRATIC = gs.Problem(
    activation="x**2-1",
    teacher="1.57*(x+.7*(x**2-1))",
    d=240,
    width=636,
    n=552,
    n_step=4800,
    ridge=53.28,
    noise=0.54,
    eta=gs.Step(0.677, 0.25),
    readout={-1: 0.5, 0.5: 0.5},
    output_scale="1/sqrt(N)",
    inputs=gs.Inputs.power_law(0.71, d=240),
)


def test_rows_keep_what_the_quadratic_part_of_the_teacher_adds():
    """With very many samples the rows have a covariance in closed form: of the plane, of all else, of the classes."""
    problem = QUADRATIC.replace(n_step=240_000)
    d, root, inputs = 240, 636**0.5, problem.inputs.at_dimension(240)
    counts = np.array(inputs.counts(d))
    c = np.repeat(inputs.eigenvalues, counts)
    b = np.zeros(d)
    b[np.cumsum(counts) - counts] = np.sqrt(inputs.teacher)
    e, mean_readout = 0.677 * 636**0.25 / root, -0.25
    ((_, network),) = result_of(stepped_networks(problem, plane=True))
    groups, bulk = network.tables.groups, network.tables.bulk
    a, _ = groups.readouts(problem.readout)
    for value in (-1.0, 0.5):
        # (W6) and (W5) for this activation, and B in the mean over the samples with and without the teacher.
        own, by_output = 1 - 4 * e / root * np.mean(c**2) * value**2, -2 * root / d * mean_readout * c
        covariances = []
        for of_teacher in (2 * 1.57 * 0.7, 0.0):
            linear = own * np.eye(d) + value * 2 * e * c[:, None] * (of_teacher * np.outer(b, b) + np.diag(by_output))
            covariances.append(linear @ np.diag(c / d) @ linear.T)
        mine = np.isclose(a, value)
        weight = groups.weight[mine] / groups.weight[mine].sum()
        plane = weight @ (groups.projection**2 + groups.rest**2)[mine]
        rest = weight @ groups.variance[mine]
        assert plane > 0.4 * rest
        assert plane + rest == pytest.approx(np.trace(covariances[0]), rel=0.01)
        others = (d - 1) / d * weight @ (groups.variance[mine] * (bulk.profile[mine] @ bulk.share))
        assert others == pytest.approx(np.diag(covariances[1])[1:].sum(), rel=0.06)


def test_the_direction_that_is_resolved_is_the_longer_one():
    """A teacher may stretch the rows more than the leading direction is long, or less."""
    assert share(QUADRATIC) == 1
    even = QUADRATIC.replace(activation="x+.3*(x**2-1)", teacher="x**2-1", n_step=2400, n=600, ridge=2.4, noise=0.3)
    even = even.replace(eta=gs.Step(1.5, 0.5), readout="constant", output_scale="1/N")
    even = even.replace(width=360, inputs=gs.Inputs.power_law(0.5, d=240))
    assert share(even) == 0
    assert share(even, stretched_by_teacher=False) > 0.5


def test_a_quadratic_output_of_order_one_fits_as_that_of_networks():
    """The fit follows the squares of the inputs along the leading direction, which are no noise to it."""
    measured, predicted = gs.simulate(QUADRATIC, seeds=16, dtype="float32"), gs.predict(QUADRATIC)
    for name, part in (("test_error", 0.06), ("train_error", 0.1)):
        found = measured[name]
        error = found.std(ddof=1) / 16**0.5
        assert abs(getattr(predicted, name) - found.mean()) < 3 * error + part * found.mean()
