r"""
What correlation does
=====================

Real inputs vary a lot in a few directions, and little in most. The gradient points where inputs vary, whether the labels
depend on that or not. A damped step, which divides the gradient by the inputs' own second moment, does not.
"""

# %%
# A spectrum, and where the teacher lies in it
# --------------------------------------------
# The eigenvalues of the inputs' covariance fall as a power of their rank. The teacher has the same part of every
# direction, is on those with large eigenvalues, or on those with small ones.

import matplotlib.pyplot as plt

import gradstep as gs

d = 150
teachers = {
    "on the leading directions": 2.0,
    "on all alike": 0.0,
    "on the last": -1.0,
}
law = gs.Inputs.power_law(0.5, 0.0, d=d)
print(law)

problem = gs.Problem(
    activation="tanh",
    teacher="sin",
    d=d,
    width="1.5d",
    n_step="4d",
    n="4d",
    eta="1.5*sqrt(N)",
    ridge="0.05d",
    noise=0.1,
)
for words, exponent in teachers.items():
    found = gs.predict(
        problem.replace(inputs=gs.Inputs.power_law(0.5, exponent, d=d))
    )
    print(
        f"{words:26} alignment {found.alignment:.2f}, test error {found.test_error:.3f}"
    )
isotropic = gs.predict(problem)
print(
    f"{'isotropic inputs':26} alignment {isotropic.alignment:.2f}, "
    f"test error {isotropic.test_error:.3f}"
)

# %%
# One plain step finds a teacher on the leading directions better than one in isotropic inputs, and others worse.
#
# More correlation
# ----------------
# Lines are theory, points are networks. At the left end the inputs are isotropic.

exponents = [0.05 * k for k in range(11)]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
for colour, (words, exponent) in enumerate(teachers.items()):
    laws = [gs.Inputs.power_law(each, exponent, d=d) for each in exponents]
    curve = gs.predict_many([problem.replace(inputs=law) for law in laws])
    networks = [
        gs.simulate(problem.replace(inputs=law), seeds=4) for law in laws[2::4]
    ]
    for axes, name in ((left, "alignment"), (right, "test_error")):
        axes.plot(
            exponents,
            [getattr(each, name) for each in curve],
            f"C{colour}",
            label=words,
        )
        means = [float(each.mean(name)) for each in networks]
        errors = [float(each.standard_error(name)) for each in networks]
        axes.errorbar(exponents[2::4], means, errors, fmt="o", color=f"C{colour}")
left.set(xlabel="exponent of the eigenvalues", ylabel="alignment with the teacher")
right.set(xlabel="exponent of the eigenvalues", ylabel="test error", yscale="log")
left.legend(title="the teacher is")
figure

# %%
# What damping repairs
# --------------------
# The teacher is on all directions alike. With a small damping the step is a regression on the inputs, and does not care
# for the scale of a direction.

curve = gs.curve(
    {
        "isotropic": problem,
        "exponent 0.5": problem.replace(inputs=law),
    },
    over={"damping": "0.03:100:log8"},
    seeds=4,
    progress=False,
)
curve.plot(["alignment", "test_error"])
