"""The page in real headless Chromium: what a person does with it, and what comes of it."""

import csv
import html
import json
import re
import signal
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import gradstep as gs
from gradstep.app.settings import DEFAULT, problem_of
from gradstep.drawing import HUES
from gradstep.typesetting import to_html

#: What the page asks for at rest.
STUDIES = ("best", "spectrum")
#: Lets these questions wait for ever. Where Playwright holds them, the browser fetches and compiles all scripts of the
#: page anew whenever it opens.
HOLD = """window.held = %s;
if (!window.ask) {
  window.ask = window.fetch;
  window.fetch = (address, options) => !window.held.some((name) => address === `/api/${name}`)
    ? window.ask(address, options)
    : new Promise((_, drop) => options.signal.addEventListener("abort", () => drop(options.signal.reason)));
}"""
#: From now on a pause of a second or more, after which the page asks a server again, takes a twentieth of it.
HURRY = """() => {
  const { setTimeout } = window;
  window.setTimeout = (call, pause) => setTimeout(call, pause < 1000 ? pause : pause / 20);
}"""
#: The machine may be busy.
PATIENCE = 60_000
WINDOW = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


class Page:
    """A page of the browser that is watched: no request leaves this machine, nothing is complained about."""

    def __init__(self, browser, server, **options):
        self.address = server.address
        self.context = browser.new_context(**{"viewport": WINDOW} | options)
        self.context.set_default_timeout(PATIENCE)
        self.requests, self.complaints = [], []
        self.begin()

    def begin(self):
        """Open an empty tab."""
        self.page, self._held, self.turned = self.context.new_page(), None, False
        self._tools = self.context.new_cdp_session(self.page)
        self._tools.send("Page.enable")
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message):
        # The browser itself reports every answer with an error, and here some are asked for.
        if message.type in ("error", "warning") and "the server responded with a status of 422" not in message.text:
            self.complaints.append(message.text)

    def open(self, fragment="", studies=()):
        """Open the page; of its questions for optima and spectra, which cost seconds each, only `studies` are sent."""
        if self.page.url != "about:blank":  # as a test leaves it
            self.page.goto("about:blank")  # only the fragment may differ from the page before
        self.send(studies)
        self.requests.clear()
        self.page.goto(self.address + fragment)
        self.settled()
        return self.page

    def turn(self, fragment, studies=()):
        """Set a new address in the page that the test before has turned: a third of what it costs to open it.

        What is no part of an address, such as parts that are unfolded, is as that test left it. The page asks for no
        curve again, so that a test of requests has a width of its own. It stays for the next test that turns it.
        """
        if self.page.url == "about:blank":
            self.open(fragment, studies)
        else:
            self.send(studies)
            self.requests.clear()
            if self.page.evaluate("location.hash") == fragment:  # which the page would not read again
                self._turn(f"{FAST}&A.noise=0.2")
            self._turn(fragment)
            self.settled()
        self.turned = True
        return self.page

    def _turn(self, fragment):
        self.page.evaluate(
            """(to) => new Promise((read) => {
              addEventListener('hashchange', () => read(), {once: true});
              location.hash = to;
            })""",
            fragment,
        )

    def send(self, studies):
        """Send these questions from now on; the others wait for ever."""
        if self._held is not None:
            self._tools.send("Page.removeScriptToEvaluateOnNewDocument", self._held)
        script = HOLD % json.dumps([name for name in STUDIES if name not in studies])
        self._held = self._tools.send("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        self.page.evaluate(f"() => {{ {script} }}")

    def settled(self):
        """Wait until the curves of the state are drawn."""
        self.until("document.documentElement.dataset.state === 'settled'")

    def until(self, condition):
        """Wait for a condition; Playwright's own way needs what the page's policy forbids."""
        wait = f"""async (patience) => {{
          for (const end = performance.now() + patience; performance.now() < end;) {{
            if ({condition}) return true;
            await new Promise((after) => setTimeout(after, 20));
          }}
          return false;
        }}"""
        assert self.page.evaluate(wait, PATIENCE), condition

    def touch(self, on):
        """Let the page be on a screen that is touched."""
        self._tools.send("Emulation.setTouchEmulationEnabled", {"enabled": on})

    def shown(self, quantity="Test error"):
        """Return a number of the strip of numbers."""
        return float(self.page.locator("#numbers div", has_text=quantity).locator("dd").inner_text())

    def traces(self, name="errors"):
        """Return the names of what a figure shows, and their values."""
        read = "id => document.getElementById(id).data.map(t => ({name: t.name, x: [...t.x], y: [...t.y]}))"
        return {trace["name"]: trace for trace in self.page.evaluate(read, name)}

    def slide(self, name, position):
        """Move a slider as a pointer does."""
        self.page.locator(f"#{name}").evaluate(
            "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input', {bubbles: true})); }",
            position,
        )
        self.settled()

    def write(self, name, text):
        self.page.fill(f"#{name}", text)
        self.page.locator(f"#{name}").press("Tab")
        self.settled()

    def check(self):
        """See that nothing was asked for elsewhere and nothing complained about."""
        local = ("data:", "blob:", "about:")
        hosts = {urllib.parse.urlsplit(url).netloc for url in self.requests if not url.startswith(local)}
        assert hosts == {urllib.parse.urlsplit(self.address).netloc}
        complaints, self.complaints = self.complaints, []
        assert complaints == []


@pytest.fixture(scope="module")
def tab(browser, server):
    """Return a page that tests share: a browser that has compiled it once opens it fast."""
    page = Page(browser, server)
    yield page
    page.context.close()


@pytest.fixture
def watched(tab):
    """Return a page of this test alone."""
    if tab.page.is_closed():
        tab.begin()
    tab.turned = False
    yield tab
    if not tab.turned:
        tab.page.goto("about:blank")
    tab.check()


@pytest.fixture
def sized(watched):
    """Return a function: the same page in a window of another size."""

    def resized(width, height):
        watched.page.set_viewport_size({"width": width, "height": height})
        return watched

    yield resized
    watched.page.set_viewport_size(WINDOW)


@pytest.fixture
def phone(sized):
    """Return the same page on a phone."""
    watched = sized(**PHONE)
    watched.touch(True)
    yield watched
    watched.touch(False)
    watched.page.emulate_media(color_scheme="light")
    watched.page.evaluate("localStorage.clear()")


def error_at(problem):
    return gs.predict(problem_of(problem)).test_error


def changed(**fields):
    return {**DEFAULT, **fields}


def test_first_sight(watched):
    page = watched.open(studies=STUDIES)
    assert "features are learned" in page.inner_text("#regime-title")
    assert "below the kernel bound" in page.inner_text("#regime-verdict")
    assert watched.shown() == pytest.approx(error_at(DEFAULT), rel=1e-3)
    traces = watched.traces()
    assert traces["no step"]["y"][-1] == pytest.approx(
        error_at(changed(n={"per_d": 10}, eta={"coefficient": 0})), rel=1e-9
    )
    assert "no step" in page.inner_text("#errors")
    assert "N = 384 neurons" in page.inner_text(".model")
    assert len(traces["test"]["x"]) == len(traces["training"]["x"]) == 60
    assert traces["this setting"]["x"] == [3]
    assert "kernel bound" in page.inner_text("#errors")
    watched.until("document.querySelector('#learned').data?.length === 2")
    watched.until("document.querySelector('#spectrum').data?.length >= 2")
    assert "One outlier" in page.inner_text("#spectrum-caption")
    page.wait_for_selector("#hint-ridge:not([hidden])")
    page.wait_for_selector("#hint-c:not([hidden])")
    best = gs.tune(problem_of(DEFAULT), over="ridge")
    assert page.inner_text("#hint-ridge").startswith(f"Best {best['ridge'].value / 256:.3g}")


def test_the_spectrum_is_of_features_or_weights(watched):
    page = watched.turn(FAST, studies=["spectrum"])
    watched.until("document.querySelector('#spectrum-caption').textContent.includes('power of κ')")
    assert "before" not in watched.traces("spectrum")
    page.select_option("#matrix", "weights")
    watched.until("document.querySelector('#spectrum-caption').textContent.includes('Dashed: before the step.')")
    assert "teacher's direction" in page.inner_text("#spectrum-caption")
    assert "singular value" in page.inner_text("#spectrum")
    assert "√n" not in page.inner_text("#spectrum")
    drawn = watched.traces("spectrum")
    assert {"before", "bulk", "outliers"} <= set(drawn)
    # It is in the link, and the features are as before.
    address = page.evaluate("(document.querySelector('#share').click(), location.hash)")
    assert "spectrum=weights" in address
    page.select_option("#matrix", "features")
    watched.until("document.querySelector('#spectrum-caption').textContent.includes('power of κ')")
    watched.open(address, studies=["spectrum"])
    watched.until("document.querySelector('#spectrum-caption').textContent.includes('Dashed: before the step.')")
    assert page.input_value("#matrix") == "weights"
    assert watched.traces("spectrum")["outliers"] == drawn["outliers"]


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.statistical)])
def test_labels_of_outliers_do_not_cover_each_other(sized, width):
    watched = sized(width, 900)
    values = [15.9, 14.6, 2.51, 2.06, 1.81, 1.7]
    names = ["constant (79 %)", "κ (100 %)", "κ² (64 %)", *(f"a direction of the inputs ({k} %)" for k in (85, 74, 56))]
    outliers = [{"singular_value": v, "label": name} for v, name in zip(values, names, strict=True)]
    bands = [{"singular_value": [0.1, 0.5, 1.0, 1.6], "density": [0.0, 1.5, 0.7, 0.0]}]
    page = watched.open(FAST)
    answer = json.dumps({"d": 256, "bands": bands, "atom": 0.0, "outliers": outliers})
    watched.send(["spectrum"])
    page.route("**/api/spectrum", lambda route: route.fulfill(content_type="application/json", body=answer))
    watched.slide("n", 0.7)
    watched.until("document.querySelectorAll('#spectrum .annotation-text').length")
    boxes = page.evaluate(
        """() => [...document.querySelectorAll('#spectrum .annotation-text')].map((text) => {
            const {left, right, top, bottom} = text.getBoundingClientRect();
            return [left, right, top, bottom];
        })"""
    )
    page.unroute("**/api/spectrum")
    assert len(boxes) == len(outliers)
    for k, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[:k]:
            assert right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top
    # Directions of the inputs are spoken of only where inputs have any.
    assert "which power of κ" in page.inner_text("#spectrum-caption")


#: One group of neurons: its predictions take a fifth of the time of the Gaussian readout's.
FAST = "#A.readout=constant"
SLIDERS = {
    "n": (lambda problem, v: {"n": {"per_d": v}}),
    "width": (lambda problem, v: {"width": {"per_d": v}}),
    "n_step": (lambda problem, v: {"n_step": {"per_d": v}}),
    "c": (lambda problem, v: {"eta": {**problem["eta"], "coefficient": v}}),
    "alpha": (lambda problem, v: {"eta": {**problem["eta"], "exponent": v}}),
    "ridge": (lambda problem, v: {"ridge": {"per_d": v}}),
    "noise": (lambda problem, v: {"noise": v}),
    "d": (lambda problem, v: {"d": int(v)}),
}


def test_every_slider_and_its_field(watched):
    page = watched.turn(FAST)
    problem = changed(readout="constant")
    for name, change in SLIDERS.items():
        watched.slide(name, 110)
        problem |= change(problem, float(page.input_value(f"#{name}-value")))
        assert watched.shown() == pytest.approx(error_at(problem), rel=2e-3), name
    # Each field changes the error by more than the last digit shown: all of them are heard.
    for name, change in SLIDERS.items():
        text = {"c": "9", "alpha": "0.1", "d": "99", "noise": "0.7"}.get(name, "2.5")
        page.fill(f"#{name}-value", text)
        page.locator(f"#{name}-value").press("Tab")
        assert error_at(problem) != pytest.approx(error_at(problem | change(problem, float(text))), rel=4e-3), name
        problem |= change(problem, float(text))
    watched.settled()
    assert watched.shown() == pytest.approx(error_at(problem), rel=2e-3)
    page.click("#reset")
    watched.settled()
    assert watched.shown() == pytest.approx(error_at(DEFAULT), rel=1e-3)


def test_sliders_by_keyboard_with_names_for_screen_readers(watched):
    page = watched.turn(FAST)
    slider = page.get_by_role("slider", name="Samples of the fit n/d")
    slider.focus()
    before = float(page.input_value("#n-value"))
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    watched.settled()
    after = float(page.input_value("#n-value"))
    assert after > before
    assert slider.get_attribute("aria-valuetext") == f"{after:.3g}"
    assert watched.shown() == pytest.approx(error_at(changed(readout="constant", n={"per_d": after})), rel=2e-3)
    assert page.locator("#n:focus-visible").count() == 1
    watched.until(f"document.querySelector('#said').textContent.includes('Test error {watched.shown():.3g}')")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('input, select, button')].filter(e => e.offsetParent &&
           !(e.labels?.length || e.ariaLabel || e.getAttribute('aria-label') || e.textContent.trim())).map(e => e.id)"""
    )
    assert nameless == []
    assert page.locator("#errors").get_attribute("aria-label").startswith("Test and training error against")


def test_the_way_to_the_controls_keeps_the_setting(watched):
    page = watched.turn(FAST)
    watched.write("noise-value", "0.3")
    page.evaluate("document.activeElement.blur()")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    watched.until("document.querySelector('#controls').contains(document.activeElement)")
    page.wait_for_timeout(100)  # a change of the address would be heard
    watched.settled()
    assert page.input_value("#noise-value") == "0.3"
    assert page.locator("#toast.shown").count() == 0


def test_a_slider_stays_where_it_is_while_it_is_dragged(sized):
    watched = sized(390, 844)
    page = watched.open(FAST)
    slider = page.locator("#ridge")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        slider.evaluate("(s) => s.scrollIntoView({ block: 'end' })")
        box = slider.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        places = []
        for share in (0.3, 0.6, 0.9):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
            watched.settled()
            # What is not predicted, and what is found at rest, do not move it either.
            page.evaluate("""() => { document.getElementById('error-noise').textContent = 'wrong '.repeat(60);
                document.getElementById('hint-c').hidden = !document.getElementById('hint-c').hidden;
                document.getElementById('regime-text').textContent += ' more words'.repeat(80); }""")
            places.append(slider.bounding_box())
            assert slider.evaluate("(s) => s.value / s.max") == pytest.approx(share, abs=0.06)
        page.mouse.up()
        for place in places:
            assert place == pytest.approx(box, abs=0.1)
        # So that the next window begins as this one did.
        page.evaluate("""() => { for (const name of ['error-noise', 'regime-text'])
            document.getElementById(name).textContent = ''; }""")


CHOICES = [
    ("n_step_kind", "n", changed(n_step="n")),
    ("readout", "readout-values", changed(readout={"0.5": 0.5, "2": 0.5})),
    ("initial_weights", "sphere", changed(initial_weights="sphere")),
    ("of", "n", changed(eta={"coefficient": 2.0, "exponent": 0.5, "of": "n"})),
]
MORE_CHOICES = [
    ("n_step_kind", "inf", changed(n_step="inf")),
    ("readout", "constant", changed(readout="constant")),
    ("readout", "-1:0.5,1:0.5", changed(readout={"-1": 0.5, "1": 0.5})),
]


@pytest.mark.parametrize("choices", [CHOICES, pytest.param(MORE_CHOICES, marks=pytest.mark.statistical)])
def test_choices(watched, choices):
    page = watched.open()
    page.click("details.more summary")
    for name, value, setting in choices:
        page.select_option(f"#{name}", value)
        watched.settled()
        assert watched.shown() == pytest.approx(error_at(setting), rel=1e-3), (name, value)
        if value == "readout-values":
            watched.write("readout-values", "1:1, 3:1")
            assert watched.shown() == pytest.approx(error_at(changed(readout={"1": 1, "3": 1})), rel=1e-3)
        page.click("#reset")
        watched.settled()
    # Another unit is the same penalty.
    page.select_option("#ridge_unit", "per_n")
    watched.settled()
    assert watched.shown() == pytest.approx(error_at(DEFAULT), rel=1e-3)
    assert page.inner_text("label[for=ridge]") == "Ridge penalty Λ/n"


def test_the_limit(watched):
    page = watched.turn(FAST, studies=["spectrum"])
    page.check("#limit")
    watched.settled()
    assert watched.shown() == pytest.approx(error_at(changed(d="inf", readout="constant")), rel=1e-3)
    watched.until("document.querySelector('#spectrum-caption').textContent.includes('d = 1000')")
    watched.send([])
    # Between 0 and 1/2 there is no theory in the limit: two places of the axis remain, and are seen as points.
    page.select_option("#axis", "alpha")
    watched.settled()
    assert page.inner_text("#failure").startswith("No prediction at 58 of 60 places. Step exponent: 0 or 1/2")
    sizes = page.evaluate("[...document.querySelector('#errors').data.find(t => t.name === 'test').marker.size]")
    assert [k for k, size in enumerate(sizes) if size] == [0, 59]
    watched.write("alpha-value", "0.3")
    page.select_option("#axis", "n")
    watched.settled()
    assert page.inner_text("#error-alpha") == "Allowed: 0 or 1/2 when d is infinite"
    assert page.locator("#alpha-value").get_attribute("aria-invalid") == "true"
    assert page.inner_text("#regime-title") == "No prediction for this setting"
    watched.write("alpha-value", "0.5")
    assert page.inner_text("#error-alpha") == page.inner_text("#failure") == ""
    assert "features are learned" in page.inner_text("#regime-title")


@pytest.mark.statistical
def test_every_axis(watched):
    page = watched.turn(FAST)
    for name in ("width", "n_step", "eta", "alpha", "ridge", "n"):
        page.select_option("#axis", name)
        watched.settled()
        xs = watched.traces()["test"]["x"]
        assert len(xs) == 60
        low, high = page.input_value("#axis-from"), page.input_value("#axis-to")
        assert xs[0] == pytest.approx(float(low), abs=0.01)
        assert xs[-1] == pytest.approx(float(high), rel=0.01)
    page.click("#errors-data summary")
    watched.write("axis-to", "5")
    assert watched.traces()["test"]["x"][-1] == pytest.approx(5, rel=0.01)
    assert page.locator("#errors-data tbody tr").count() == 60
    watched.write("axis-from", "7")
    assert "above the other end" in page.inner_text("#error-axis")
    watched.write("axis-from", "seven")
    assert page.inner_text("#error-axis") == "“seven” is not a number"
    watched.write("axis-from", "1e7")
    assert page.inner_text("#regime-text") == "Range of the axis: a number > 0, at most 1e6."


def test_the_key_names_the_setting_only_where_the_figure_has_it(watched):
    page = watched.turn(FAST)
    assert "this setting" in page.inner_text("#key")
    watched.write("n-value", "0.1")
    assert "this setting" not in page.inner_text("#key")
    assert "this setting" not in watched.traces()


def test_correlated_inputs_and_damping(watched):
    page = watched.turn(FAST, studies=["spectrum"])
    assert page.locator("#eigenvalues").is_hidden()
    page.select_option("#law", "exponent")
    watched.settled()
    law = gs.Inputs.power_law(0.5, 0.0, d=256)
    setting = changed(inputs=law.to_plain(), readout="constant")
    assert watched.shown() == pytest.approx(error_at(setting), rel=1e-3)
    assert page.locator("#eigenvalues rect").count() == len(law.eigenvalues)
    assert f"Effective dimension {law.effective_dimension:.2g} d" in page.inner_text("#eigenvalues").replace(
        "\u00a0", " "
    )
    # The bound is known for isotropic inputs.
    assert "kernel bound" not in page.inner_text("#errors") + page.inner_text("#regime-verdict")
    watched.until("document.querySelector('#spectrum-caption').textContent.includes('outlier')")
    assert page.locator("#spectrum").is_visible()
    watched.send([])
    assert "power_law(0.5, 0.0, d=256)" in page.inner_text(".model [data-of=data]")
    # A heavier class has a larger bar.
    heights = [float(bar.get_attribute("height")) for bar in page.locator("#eigenvalues rect").all()]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) > 5
    page.select_option("#lies", "last")
    watched.write("exponent-value", "0.4")
    watched.write("damping-value", "0.2")
    setting = changed(inputs="power_law(0.4, -1.0, d=256)", damping=0.2, readout="constant")
    assert watched.shown() == pytest.approx(error_at(setting), rel=1e-3)
    assert "damping δ = 0.2" in page.inner_text(".model [data-of=step]")
    page.select_option("#axis", "damping")
    watched.settled()
    traces = watched.traces()
    assert len(traces["test"]["x"]) == 24
    assert traces["test"]["y"][-1] == pytest.approx(error_at({**setting, "damping": 100.0}), rel=1e-9)
    unstepped = error_at({**setting, "eta": {"coefficient": 0}, "damping": "inf"})
    assert traces["no step"]["y"] == pytest.approx([unstepped] * 24)
    # The same in the address, in Python, and at the right end of the slider.
    watched.until("location.hash.includes('A.inputs=exponent%3A0.4%3Alast') && location.hash.includes('A.damping=0.2')")
    address = page.evaluate("location.hash")
    page.click("#downloads summary")
    page.click("[data-download=py]")
    watched.until("document.querySelector('#code').open")
    code = page.inner_text("#code code")
    assert 'inputs="power_law(0.4, -1.0, d=256)"' in code
    assert "damping=0.2" in code
    assert "kernel" not in code
    page.click("#code-close")
    watched.slide("damping", 200)
    assert watched.shown() == pytest.approx(error_at({**setting, "damping": "inf"}), rel=1e-3)
    assert page.input_value("#damping-value") == "∞"
    watched.open(address)
    assert watched.shown() == pytest.approx(error_at(setting), rel=1e-3)
    assert page.input_value("#law") == "exponent"
    assert page.input_value("#lies") == "last"
    page.select_option("#law", "strength")
    watched.settled()
    law = "spiked([20.0], d=256, teacher=[0.0])"
    assert watched.shown() == pytest.approx(error_at({**setting, "inputs": law}), rel=1e-3)
    assert page.locator("#eigenvalues rect").count() == 2


def test_what_has_no_theory_is_said_in_plain_words(watched):
    page = watched.turn(f"{FAST}&A.damping=0.2&A.inputs=strength:20:last")
    assert page.inner_text("#error-inputs") == ""
    watched.write("strength-value", "500")
    words = "directions that hold less than an eighth of all variance each"
    assert page.inner_text("#error-inputs") == f"Allowed: {words}"
    assert page.inner_text("#regime-text") == f"Inputs: {words}."
    assert page.locator("#eigenvalues").is_hidden()
    page.check("#limit")
    watched.settled()
    assert "one direction has no weight among infinitely many" in page.inner_text("#error-inputs")
    page.select_option("#law", "exponent")
    watched.settled()
    assert page.inner_text("#error-inputs") == ""
    watched.write("exponent-value", "1.2")
    assert "in the proportional limit the exponent is below 1" in page.inner_text("#error-inputs")
    page.select_option("#law", "isotropic")
    watched.settled()
    assert "the kernel bound" in page.inner_text("#regime-verdict")


def test_formula_errors_are_shown_at_the_field(watched):
    page = watched.turn(FAST)
    watched.write("teacher", "x1*x2")
    assert page.inner_text("#error-teacher") == "Allowed: a teacher of one direction, for which there is theory"
    assert page.inner_text("#regime-text") == "Teacher: a teacher of one direction, for which there is theory."
    watched.write("teacher", "sin")
    watched.write("activation", "tanh(x) + 0.3*")
    assert "not a formula" in page.inner_text("#error-activation")
    assert page.locator("#activation").get_attribute("aria-invalid") == "true"
    assert page.locator("#errors.stale").count() == 1
    watched.write("activation", "tanh(x) + 0.3*x**2")
    assert page.inner_text("#error-activation") == ""
    assert page.locator("#activation").get_attribute("aria-invalid") is None
    assert page.locator("#errors.stale").count() == 0
    assert watched.shown() == pytest.approx(
        error_at(changed(activation="tanh(x) + 0.3*x**2", readout="constant")), rel=1e-3
    )
    # A misspelt name gets the guess that it gets in Python.
    watched.write("activation", "tahn")
    assert page.inner_text("#error-activation") == "unknown name. Did you mean tanh?"
    assert page.inner_text("#regime-text") == "Activation: unknown name. Did you mean tanh?"
    watched.write("activation", "zzz")
    assert page.inner_text("#error-activation") == "unknown name"
    watched.write("activation", "tanh")
    watched.write("teacher", "import os")
    assert "not a formula" in page.inner_text("#error-teacher")
    watched.write("teacher", "exp(x**2)")
    assert "finite" in page.inner_text("#error-teacher")
    watched.write("teacher", "H1")
    # In the words of the page, not in those of the interface behind it.
    watched.write("ridge-value", "0")
    words = "Allowed: a number > 0 from 1e-12 to 1e12"
    assert page.inner_text("#error-ridge") == f"{words}; for the min-norm fit (ridge → 0) a small one such as 1e-6"
    watched.write("ridge-value", "-1")
    assert page.inner_text("#error-ridge") == words
    watched.write("ridge-value", "0.2")
    watched.write("d-value", "1")
    assert page.inner_text("#error-d") == "Allowed: an integer from 2 to 1000000, or the proportional limit"
    watched.write("d-value", "256")
    watched.write("width-value", "-3")
    assert "ratio" in page.inner_text("#error-width")
    watched.write("width-value", "wide")
    assert page.inner_text("#error-width") == "“wide” is not a number"
    watched.write("width-value", "2")
    assert page.inner_text("#error-width") == ""


def test_a_field_does_not_keep_what_was_wrong_with_the_value_before(watched):
    page = watched.turn(FAST)
    watched.write("teacher", "x**")
    assert "not a formula" in page.inner_text("#error-teacher")
    # It is read, but its equations have no solution at this step: no field is to blame.
    watched.write("teacher", "H33")
    assert page.inner_text("#error-teacher") == ""
    assert page.get_attribute("#teacher", "aria-invalid") is None
    for place in ("#regime-text", "#failure"):
        assert page.inner_text(place)[0].isupper()


def test_comparison_of_four_and_the_state_in_the_address(watched):
    page = watched.turn(FAST)
    assert page.locator(".chip").count() == 0
    for value in ("1", "2", "6"):
        page.locator("#compare").press("Enter")
        # The focus is where it was, or at the new setting when there can be no more.
        assert page.evaluate("document.activeElement.closest('#chips') !== null")
        watched.write("width-value", value)
    assert page.locator("#compare").count() == 0
    tests = [name for name in watched.traces() if name.endswith(" test")]
    assert tests == ["A test", "B test", "C test", "D test"]
    watched.write("teacher", "tanh(2*x)")
    page.select_option("#axis", "ridge")
    watched.settled()
    page.click("#share")
    address = page.url
    assert "D.teacher=tanh%282*x%29" in address
    traces = watched.traces()
    watched.open(urllib.parse.urlsplit(address)._replace(scheme="", netloc="", path="").geturl())
    assert watched.traces() == traces
    assert page.input_value("#teacher") == "tanh(2*x)"
    assert page.get_by_role("button", name=re.compile("^D ")).get_attribute("aria-pressed") == "true"
    # The address may be changed by hand; what it says in vain is named.
    page.evaluate("location.hash = '#axis=n&A.noise=0.5&A.nosie=3&figure=fig99'")
    watched.until("document.querySelector('#toast.shown')?.textContent.includes('A.nosie=3, figure=fig99')")
    words = "A.optimiser=adm", "A.of=m", "A.samples=new", "A.points=24_-1*4*1*1*1*1*1*1"
    for vain in (words, ("A.points=24_1*4*1*-1*1*1*1*1",)):
        page.evaluate(f"location.hash = '#axis=n&A.noise=0.5&{'&'.join(vain)}'")
        said = f"Not read in the address: {', '.join(vain)}"
        watched.until(f"document.querySelector('#toast.shown')?.textContent.endsWith('{said}')")
    watched.until("document.querySelectorAll('.chip').length === 0")
    watched.settled()
    assert watched.shown() == pytest.approx(error_at(changed(noise=0.5)), rel=1e-3)
    page.click("#compare")
    watched.settled()
    page.get_by_role("button", name="Remove setting A").press("Enter")
    watched.settled()
    assert page.locator(".chip").count() == 0
    assert page.evaluate("document.activeElement.id") == "compare"


def test_each_size_has_one_row(watched):
    """At d = 4 the sixty places of the axis are two dozen numbers of samples: the table and the file have each once."""
    page = watched.turn(f"{FAST}&A.d=4&axis=n&from=0.5&to=6")
    page.click("#errors-data summary")
    rows = page.locator("#errors-data tbody tr").all_inner_texts()
    places = watched.traces()["test"]["x"]
    assert places == [n / 4 for n in range(2, 25) if n / 4 in places]
    assert len(rows) == len(set(rows)) == len(places) < 24
    assert len(watched.traces()["no step"]["y"]) == len(places)
    with page.expect_download() as saved:
        page.click("#downloads summary")
        page.click("[data-download=csv]")
    with open(saved.value.path(), encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert len(written) == len(places)


def test_how_much_is_drawn_outlives_a_reload(watched):
    """It is in the address as everything else, unless it is what is usual."""
    page = watched.turn(FAST)
    fields = {"seeds": "5", "places": "3", "simulated-d": "60"}
    page.check("#limit")
    watched.settled()
    for name, value in fields.items():
        page.fill(f"#{name}", value)
        page.locator(f"#{name}").dispatch_event("change")
    watched.until("location.hash.includes('networks=5&places=3&dimension=60')")
    page.reload()
    watched.settled()
    assert {name: page.input_value(f"#{name}") for name in fields} == fields
    page.uncheck("#limit")  # a setting with a dimension of its own has no use for another
    watched.until("location.hash.includes('networks=5&places=3') && !location.hash.includes('dimension')")
    page.select_option("#preset", "fig1")
    watched.settled()
    assert page.input_value("#seeds") == "5"
    page.fill("#seeds", "1")  # what is not allowed is not kept
    page.locator("#seeds").dispatch_event("change")
    assert "networks=5" in page.url
    page.evaluate(f"location.hash = '{FAST}&networks=1&places=4'")
    watched.until("document.querySelector('#toast.shown')?.textContent.endsWith('Not read in the address: networks=1')")
    watched.settled()
    assert [page.input_value(f"#{name}") for name in fields] == ["8", "4", "200"]
    page.click("#reset")
    watched.until("!location.hash.includes('places')")


def read(text):
    """Return text as it is read on the page, its formulas typeset."""
    return html.unescape(re.sub("<[^>]+>", "", to_html(text)))


@pytest.mark.statistical
def test_words_of_figures_are_typeset(watched, api):
    page = watched.open(FAST)
    presets = api.get("/api/start").json()["presets"]
    preset = next(p for p in presets if "eta = N^alpha" in p["title"])
    assert "η = N^α" in page.locator(f"#preset option[value={preset['name']}]").inner_text()
    page.select_option("#preset", preset["name"])
    watched.settled()
    assert page.locator("#preset-note b sup i").inner_text() == "α"
    page.click("#preset-note summary")
    assert page.locator("#preset-note details").inner_html().count('<span class="root">') == to_html(
        preset["stated"] + preset["ours"]
    ).count('<span class="root">')
    # A label is typeset on its chip and in the names for screen readers, and is plain in the address.
    preset = next(p for p in presets if any(s["label"] == "eta = sqrt N" for s in p["settings"]))
    page.select_option("#preset", preset["name"])
    watched.settled()
    assert page.locator(".chip .root").inner_text() == "N"
    assert page.get_by_role("button", name=re.compile("η = √N$")).count() >= 1
    assert "=eta+%3D+sqrt+N" in page.evaluate("(document.querySelector('#share').click(), location.hash)")
    # What is in an address and known to nobody is text.
    watched.open("#A=<i>x</i>&B=eta+%3D+1")
    assert page.locator(".chip span").all_inner_texts()[0] == "<i>x</i>"


@pytest.mark.parametrize(
    "names",
    [
        ("fig3a", "initial", "fig2_sin"),
        pytest.param(("theorem3", "fig6_vocabulary", "fig8_spectrum", "fig2_sin"), marks=pytest.mark.statistical),
    ],
)
def test_presets(watched, api, names):
    page = watched.turn(FAST)
    facts = api.get("/api/start").json()
    presets = {preset["name"]: preset for preset in facts["presets"]}
    # One of each kind, and with one curve, three, four and more; the numbers of all are checked without a browser. The
    # staircase takes most of the time that the server allows a curve: on a busy machine it was refused.
    for name in names:
        preset = presets[name]
        page.select_option("#preset", name)
        watched.settled()
        traces = watched.traces()
        count = len(preset["shown"])
        names = ["test"] if count == 1 else [f"{'ABCD'[k]} test" for k in range(count)]
        assert [name for name in traces if name.endswith("test")] == names, name
        assert all(value is not None for name in names for value in traces[name]["y"])
        assert read(preset["title"]) in page.inner_text("#preset-note")
        assert page.inner_text("#failure") == ""
    # A figure of five curves: the fifth takes the place of the chosen one, which can come back.
    assert len(preset["settings"]) == 5
    labels = [setting["label"] for setting in preset["settings"]]
    shown = [labels[k] for k in preset["shown"]]
    (other,) = set(labels) - set(shown)
    (swap,) = page.locator("#preset-note button").all()
    assert swap.inner_text() == read(other)
    swap.press("Enter")
    watched.settled()
    assert page.locator(".chip [aria-pressed=true] span").inner_text() == read(other)
    assert page.locator("#preset-note button").inner_text() == read(shown[-1])
    at_swap = preset["settings"][labels.index(other)]["problem"]
    assert watched.shown() == pytest.approx(error_at(at_swap), rel=1e-3)
    # A figure that is no curve of problems says where it is drawn, and leaves the page as it is.
    traces = watched.traces()
    page.select_option("#preset", label="Cui et al. 2024: The functions that a step makes available")
    assert "gradstep reproduce --paper cui2024 --figure fig7_pool" in page.inner_text("#preset-note")
    assert "The page cannot compute this figure: it is about the functions that" in page.inner_text("#preset-note")
    assert watched.traces() == traces
    watched.until("document.querySelector('#preset-note img').naturalWidth > 0")
    # The name of a figure is an address.
    page.evaluate("location.hash = '#figure=fig3a'")
    watched.until("document.querySelectorAll('.chip').length === 4")
    watched.settled()
    assert page.input_value("#teacher").startswith("softplus(x)")
    assert page.input_value("#axis") == "n"
    # So it is in a new tab; a figure of spectra begins with its first setting, which shows the most.
    watched.open("#figure=weights_spectrum")
    assert page.input_value("#matrix") == "weights"
    assert page.locator(".chip [aria-pressed=true] b").inner_text() == "A"


def test_simulation_with_progress_and_cancel(watched):
    page = watched.turn("#A.d=24&A.readout=constant&axis=n&from=1&to=6")
    page.fill("#places", "3")
    page.fill("#seeds", "4")
    page.click("#run")
    watched.until("document.querySelector('#simulation-status').textContent.includes('standard errors')")
    watched.until("document.querySelector('#errors').data.filter(t => t.name === 'A network').length === 2")
    bars = page.evaluate(
        "document.querySelector('#errors').data.filter(t => t.name === 'A network').map(t => [...t.error_y.array])"
    )
    assert all(len(bar) == 3 and min(bar) > 0 for bar in bars)
    # At another setting the points are grey and can be drawn again; back at theirs they are as before.
    points = watched.traces()["A network"]
    watched.write("noise-value", "0.4")
    assert "A network" not in watched.traces()
    assert watched.traces()["A network, before"] == {**points, "name": "A network, before"}
    assert page.inner_text("#run") == "Simulate again"
    assert page.inner_text("#simulation-status") == "The points drawn before are grey: they are of another setting."
    assert "A.points" not in page.evaluate("(document.querySelector('#share').click(), location.hash)")
    watched.write("noise-value", "0.1")
    assert watched.traces()["A network"] == points
    assert page.inner_text("#run") == "Simulate"
    # They are in the link, and with the noise in both errors each is higher by its variance.
    address = page.evaluate("(document.querySelector('#share').click(), location.hash)")
    watched.open(f"{address}&noise=both")
    watched.until("document.querySelector('#errors').data.some(t => t.name === 'A network')")
    watched.settled()
    assert watched.traces()["A network"]["x"] == pytest.approx(points["x"], rel=1e-3)
    assert watched.traces()["A network"]["y"] == pytest.approx(np.array(points["y"]) + 0.01, rel=1e-3)
    # What would be simulated again is as many places and networks.
    assert [page.input_value(f"#{name}") for name in ("places", "seeds", "simulated-d")] == ["3", "4", "24"]
    assert page.inner_text("#simulation-status") == "From the link: 4 networks at each of 3 places."
    assert watched.shown() == pytest.approx(error_at(changed(d=24, readout="constant")) + 0.01, rel=1e-3)
    page.select_option("#noise-in", "neither")
    watched.settled()
    assert watched.shown() == pytest.approx(error_at(changed(d=24, readout="constant")), rel=1e-3)
    watched.write("d-value", "200000")
    page.click("#run")
    watched.until("document.querySelector('#error-simulate').textContent.includes('smaller sizes')")
    page.fill("#places", "20")
    page.fill("#seeds", "100")
    watched.write("d-value", "300")
    page.click("#run")
    watched.until("/^[1-9]\\d* of 2000 networks/.test(document.querySelector('#simulation-status').textContent)")
    assert page.evaluate("document.querySelector('#progress').value") > 0
    page.click("#cancel")
    watched.until("document.querySelector('#simulation-status').textContent === 'Cancelled.'")
    page.wait_for_selector("#run:not([hidden])")


@pytest.mark.statistical
def test_points_of_the_setting_before_are_in_the_link(watched):
    page = watched.open("#A.d=24&A.readout=constant&from=1&to=6")
    page.fill("#places", "3")
    page.fill("#seeds", "4")
    page.click("#run")
    watched.until("document.querySelector('#simulation-status').textContent.includes('standard errors')")
    points = watched.traces()["A network"]
    watched.write("noise-value", "0.4")
    address = page.evaluate("(document.querySelector('#share').click(), location.hash)")
    assert "A.before=n.24_" in address
    # Whoever opens it sees them grey, and would draw as many again.
    watched.open(address)
    watched.until("document.querySelector('#errors').data.some(t => t.name === 'A network, before')")
    old = watched.traces()["A network, before"]
    assert old["x"] == pytest.approx(points["x"], rel=1e-3)
    assert old["y"] == pytest.approx(points["y"], rel=1e-3)
    assert [page.input_value(f"#{name}") for name in ("places", "seeds", "simulated-d")] == ["3", "4", "24"]
    assert page.inner_text("#run") == "Simulate again"
    assert "grey" in page.inner_text("#simulation-status")
    # Another axis has no points, and the same offer, also in its own link.
    page.select_option("#axis", "ridge")
    watched.settled()
    assert "A network, before" not in watched.traces()
    again = page.evaluate("(document.querySelector('#share').click(), location.hash)")
    words = "The points drawn before are along another axis, samples per dimension n/d."
    assert page.inner_text("#simulation-status") == words
    assert page.inner_text("#run") == "Simulate again"
    watched.open(again)
    watched.until("document.querySelector('#run').textContent === 'Simulate again'")
    assert page.inner_text("#simulation-status") == words
    page.click("#run")
    watched.until("document.querySelector('#simulation-status').textContent.includes('standard errors')")
    assert len(watched.traces()["A network"]["x"]) == 3
    assert page.inner_text("#run") == "Simulate"
    assert "A.before" not in page.evaluate("(document.querySelector('#share').click(), location.hash)")
    # What is no list of points is named.
    page.evaluate("location.hash = '#A.before=n.24_1*4&A.noise=0.2'")
    watched.until("document.querySelector('#toast.shown')?.textContent.includes('A.before=n.24_1*4')")
    watched.settled()


def test_where_theory_ends_the_network_is_drawn(watched):
    page = watched.open("#A.d=24&from=1&to=6&A.readout=constant")
    shown = watched.traces()["test"]
    page.click(".training summary")
    watched.write("steps", "3")
    page.select_option("#samples", "reused")
    page.select_option("#optimiser", "sign")
    watched.settled()
    assert "Theory ends at one gradient step" in page.inner_text("#beyond")
    assert "3 steps of sign descent (the same samples in all)" in page.inner_text("#beyond")
    assert watched.traces()["test"] == shown
    page.fill("#places", "2")
    page.fill("#seeds", "2")
    page.click("#beyond-run")
    watched.until("document.querySelector('#simulation-status').textContent.includes('in the median of the places')")
    assert page.locator("#beyond-run:visible").count() == 0
    points = watched.traces()["A network"]
    # The points are this training's alone, and travel with it.
    address = page.evaluate("(document.querySelector('#share').click(), location.hash)")
    assert "A.steps=3&A.samples=reused&A.optimiser=sign" in address
    watched.write("steps", "1")
    page.select_option("#optimiser", "gradient")
    watched.settled()
    assert page.locator("#beyond:visible").count() == 0
    assert "A network" not in watched.traces()
    page.evaluate(f"location.hash = '{FAST}'")
    watched.until(
        "document.querySelector('#steps').value === '1' && document.querySelector('#d-value').value === '256'"
    )
    page.evaluate("to => { location.hash = to; }", address)
    watched.until("document.querySelector('#errors').data.some(t => t.name === 'A network')")
    assert watched.traces()["A network"]["y"] == pytest.approx(points["y"], rel=1e-3)
    watched.settled()
    watched.write("steps", "0")
    assert page.inner_text("#error-steps") == "a whole number from 1 to 20"
    watched.write("steps", "3")


def test_downloads(watched, tmp_path):
    page = watched.turn("#A.d=24&A.readout=constant&from=1&to=6&B=wider&B.d=24&B.width=3")
    page.fill("#places", "2")
    page.fill("#seeds", "2")
    page.click("#run")
    watched.until("document.querySelector('#simulation-status').textContent.includes('standard errors')")

    def download(kind, click=None):
        with page.expect_download() as caught:
            if click:
                page.click(click)
            else:
                page.click("#downloads summary")
                page.click(f"[data-download={kind}]")
        path = tmp_path / caught.value.suggested_filename
        caught.value.save_as(path)
        return path

    with download("csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    theory = [row for row in rows if row["kind"] == "theory"]
    networks = [row for row in rows if row["kind"] == "network"]
    sizes = np.unique(np.round(24 * np.geomspace(0.3, 10, 60)))  # several of the places are one number of samples
    assert (len(theory), len(networks)) == (2 * len(sizes), 4)
    shown = watched.traces()
    assert [float(row["test_error"]) for row in theory if row["setting"] == "A"] == shown["A test"]["y"]
    assert [float(row["n/d"]) for row in theory if row["setting"] == "B"] == shown["B test"]["x"]
    assert all(row["networks"] == "2" and float(row["test_standard_error"]) > 0 for row in networks)

    document = json.loads(download("json").read_text())
    assert document["gradstep"] == gs.__version__
    resolved = gs.Problem.from_dict(document["settings"][0]["resolved"])
    assert gs.predict(resolved).test_error == pytest.approx(document["settings"][0]["here"]["test_error"], rel=1e-9)
    assert document["settings"][0]["simulation"]["places"][1]["seeds"] == 2

    assert download("png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    drawing = ElementTree.parse(download("svg"))
    assert drawing.getroot().tag.endswith("svg")
    words = "".join(drawing.getroot().itertext())
    assert "kernel bound" in words
    assert "Test error (solid), training error (dotted), both without label noise." in words
    # It says what it is of, without the page.
    assert (
        "A: tanh network, sin teacher, label noise 0.1; d = 24, N = 36, n₀ = 192, n on the axis, Λ = 4.8, η = 2 √N;"
        in words
    )
    assert "B: tanh network, sin teacher, label noise 0.1; d = 24, N = 72," in words
    assert f"gradstep {gs.__version__}" in words

    page.click("#downloads summary")
    page.click("[data-download=py]")
    page.wait_for_selector("#code[open]")
    script = download("py", "#code-save")
    page.click("#code-close")
    read = "import json, runpy, sys; found = runpy.run_path(sys.argv[1])['curve']; "
    read += "names = 'test_error', 'train_error'; "
    read += "print(json.dumps({name: found.overlay(name, 'neither').theory.T.tolist() for name in names}))"
    command = [sys.executable, "-c", read, script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    computed = json.loads(done.stdout)
    for k, name in enumerate("AB"):
        for quantity, own in (("test_error", "test"), ("train_error", "training")):
            line = shown[f"{name} {own}"]["y"]
            assert computed[quantity][k] == pytest.approx([line[0], line[-1]], rel=1e-9)
    # As many networks at as many places as were simulated.
    assert "seeds=2)" in script.read_text()
    assert ":log2" in script.read_text()
    assert (tmp_path / "gradstep_page.png").stat().st_size > 10_000


def test_best_of_both(watched):
    page = watched.turn("#A.readout=constant&A.d=64", studies=["best"])
    before = watched.shown()
    page.click("#best-both")
    watched.until("document.querySelector('#best-both').textContent.startsWith('Set best')")
    watched.until("!document.querySelector('#best-both').disabled")
    watched.settled()
    best = gs.tune(problem_of(changed(readout="constant", d=64)))
    assert watched.shown() == pytest.approx(best.prediction.test_error, rel=2e-3)
    assert watched.shown() < before
    page.select_option("#axis", "ridge")
    watched.until("document.querySelector('#errors').data.some(t => t.name === 'best')")
    star = watched.traces()["best"]
    assert star["y"][0] <= min(watched.traces()["test"]["y"]) * (1 + 1e-6)


def test_the_first_click_after_typing_counts(watched):
    page = watched.turn(FAST)
    for name in ("teacher", "activation"):
        page.click(f"#{name}")
        watched.until("getComputedStyle(document.querySelector('#formulas')).display !== 'none'")
        below = page.locator("#formulas").bounding_box()["y"] - page.locator(f"#{name}").bounding_box()["y"]
        assert 0 < below < 80
    page.fill("#activation", "tanh(x) + x")
    # With the mouse, button down and up at one place, as a hand does.
    page.locator("#reset").scroll_into_view_if_needed()
    box = page.locator("#reset").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.up()
    watched.until("document.querySelector('#activation').value === 'tanh'")
    watched.until("getComputedStyle(document.querySelector('#formulas')).display === 'none'")
    watched.settled()


def test_what_takes_long_is_said_to_be_of_the_setting_before(watched):
    page = watched.turn(f"{FAST}&A.width=1.1")
    held = []
    page.route("**/api/curves", lambda route: held.append(route))
    page.locator("#noise").press("ArrowRight")
    watched.until("document.querySelector('#errors.stale.waiting') && document.querySelector('#regime.stale')")
    held[0].continue_()
    watched.settled()
    page.unroute("**/api/curves")
    assert page.locator("#errors.stale, #errors.waiting, #regime.stale").count() == 0


def test_while_a_spectrum_is_computed_the_words_below_it_are_dimmed_too(watched):
    opacity = "Number(getComputedStyle(document.querySelector('#spectrum-caption')).opacity)"
    page = watched.turn(f"{FAST}&A.width=1.2", studies=["spectrum"])
    watched.until(f"document.querySelector('#spectrum-caption').textContent && {opacity} === 1")
    watched.send([])
    watched.slide("c", 100)
    watched.until(f"{opacity} < 0.5")
    refusal = {"error": {"message": "no", "reason": "no spectrum here"}}
    watched.send(["spectrum"])
    page.route("**/api/spectrum", lambda route: route.fulfill(status=422, json=refusal))
    watched.slide("c", 120)
    watched.until("document.querySelector('#spectrum-caption').textContent === 'No spectrum here.'")
    watched.until(f"{opacity} === 1")
    page.unroute("**/api/spectrum")


def test_a_curve_that_takes_too_long_has_fewer_points(watched):
    page = watched.turn(f"{FAST}&A.width=1.3")
    counts = []

    def answer(route):
        counts.append(route.request.post_data_json["axis"]["count"])
        if len(counts) > 1:
            return route.continue_()
        return route.fulfill(status=503, json={"error": {"message": "This takes longer than it may.", "slow": True}})

    page.route("**/api/curves", answer)
    watched.slide("noise", 50)
    assert counts == [60, 24]
    assert page.inner_text("#failure") == ""
    traces = watched.traces()
    assert [len(traces[name]["x"]) for name in ("test", "training", "no step")] == [24, 24, 24]
    noise = float(page.input_value("#noise-value"))
    assert watched.shown() == pytest.approx(
        error_at(changed(readout="constant", width={"per_d": 1.3}, noise=noise)), rel=1e-3
    )
    # The answer came at once, and the next curve has all points again.
    watched.slide("noise", 60)
    assert counts == [60, 24, 60]
    assert len(watched.traces()["no step"]["x"]) == 60
    page.unroute("**/api/curves")
    assert all("503" in complaint for complaint in watched.complaints)
    watched.complaints.clear()


def test_stale_requests_are_not_queued(watched):
    page = watched.turn(f"{FAST}&A.width=1.4")
    watched.requests.clear()
    page.evaluate(
        """() => { const slider = document.getElementById('ridge');
          for (let k = 0; k < 150; k += 1) {
            slider.value = k; slider.dispatchEvent(new Event('input', {bubbles: true})); } }"""
    )
    watched.settled()
    # The first move and the last one.
    assert 1 <= sum(url.endswith("/api/curves") for url in watched.requests) <= 2
    value = float(page.input_value("#ridge-value"))
    setting = changed(readout="constant", width={"per_d": 1.4}, ridge={"per_d": value})
    assert watched.shown() == pytest.approx(error_at(setting), rel=2e-3)


def test_a_request_that_takes_long_is_dropped_for_a_newer_one(watched):
    page = watched.turn(f"{FAST}&A.width=1.6")
    held, dropped = [], []

    def hold_the_first(route):
        if held:
            route.continue_()
        else:
            held.append(route)

    page.on("requestfailed", lambda request: dropped.append(request))
    page.route("**/api/curves", hold_the_first)
    watched.requests.clear()
    page.locator("#noise").press("ArrowRight")
    assert page.evaluate("document.documentElement.dataset.state") == "working"
    # In one turn of the page's own: a browser that is driven slowly would have the time to ask in between.
    page.evaluate(
        """() => { const field = document.getElementById('noise-value');
          for (const value of ['0.5', '0.6', '0.7']) {
            field.value = value; field.dispatchEvent(new Event('change', {bubbles: true})); } }"""
    )
    watched.settled()
    page.unroute("**/api/curves")
    assert [request for request in dropped if request.url.endswith("/api/curves")] == [held[0].request]
    # What came between is never asked for.
    assert sum(url.endswith("/api/curves") for url in watched.requests) == 2
    setting = changed(readout="constant", width={"per_d": 1.6}, noise=0.7)
    assert watched.shown() == pytest.approx(error_at(setting), rel=1e-3)


def test_a_server_that_is_gone_is_named(watched):
    page = watched.turn(f"{FAST}&A.width=1.7")
    page.route("**/api/curves", lambda route: route.abort())
    watched.slide("noise", 50)
    assert "Does gradstep app still run" in page.inner_text("#failure")
    page.unroute("**/api/curves")
    watched.slide("noise", 60)
    assert page.inner_text("#failure") == ""
    # The browser reports it too.
    watched.complaints = [text for text in watched.complaints if "ERR_FAILED" not in text]


@pytest.mark.parametrize("name", ["curves", pytest.param("spectrum", marks=pytest.mark.statistical)])
def test_a_server_with_too_much_to_do_is_asked_again(watched, name):
    answered = []

    def busy_at_first(route):
        if not answered:
            answered.append(route.fulfill(status=429, json={"error": {"message": "Too many requests at once."}}))
        else:
            route.continue_()

    page = watched.open(FAST)
    page.evaluate(HURRY)
    page.route(f"**/api/{name}", busy_at_first)
    watched.turn(f"{FAST}&A.width=1.8", studies=[name])
    watched.turned = False
    shown = "#regime-title", "learned"
    if name == "spectrum":
        shown = "#spectrum-caption", "power of κ"
    watched.until("document.querySelector('{}').textContent.includes('{}')".format(*shown))
    assert "No prediction" not in page.inner_text("#regime-title")
    page.unroute(f"**/api/{name}")
    assert answered
    # The browser reports it too.
    watched.complaints = [text for text in watched.complaints if "status of 429" not in text]


def test_the_numbers_of_a_simulation_are_named_as_on_the_page(watched):
    page = watched.turn(FAST)
    refusals = {"seeds": "networks: an integer from 2 to 100.", "places": "places: an integer from 2 to 40."}
    for name, said in refusals.items():
        page.fill(f"#{name}", "")
        page.click("#run")
        watched.until(f"document.querySelector('#error-simulate').textContent === '{said}'")
        page.fill(f"#{name}", "8")


def test_a_refusal_says_whose_curves_are_seen(watched):
    page = watched.turn(f"{FAST}&A.d=20")
    caveats = page.inner_text("#caveats")
    assert caveats.startswith("Caveats: small sizes")
    watched.write("ridge-value", "0")
    assert page.inner_text("#caveats") == ""
    assert page.inner_text("#failure") == "The pale curves are of the setting before."
    page.evaluate("document.querySelector('[data-download=png]').click()")
    watched.until("document.querySelector('#toast.shown')?.textContent === 'There is no curve of this setting.'")
    watched.write("ridge-value", "0.2")
    assert page.inner_text("#caveats") == caveats
    assert page.inner_text("#failure") == ""
    # What is wrong with values of which a field has several says which of them; a name is guessed at in any case.
    page.evaluate("document.querySelector('details.more').open = true")
    page.select_option("#readout", "readout-values")
    watched.write("readout-values", "1:0")
    page.evaluate("document.querySelector('details.more').open = false")
    assert page.text_content("#error-readout") == "Allowed weights: a finite number > 0"
    watched.write("activation", "ReLU")
    assert page.inner_text("#error-activation") == "unknown name. Did you mean relu?"


def test_numbers_as_people_write_them(watched):
    page = watched.turn(FAST)
    watched.write("alpha-value", "1/4")
    assert "η = 2 N^0.25" in page.inner_text(".model [data-of=step]")
    for text, said in {"": "a number is missing", "1/": "“1/” is not a number", "1/0": "“1/0” is not a number"}.items():
        watched.write("alpha-value", text)
        assert page.inner_text("#error-alpha") == said
    watched.write("alpha-value", "0")
    watched.write("n_step-value", "∞")
    assert page.input_value("#n_step_kind") == "inf"
    watched.write("d-value", "inf")
    assert page.is_checked("#limit")
    assert watched.shown() == pytest.approx(
        error_at(changed(readout="constant", d="inf", n_step="inf", eta={"coefficient": 2.0})), rel=1e-3
    )


def test_a_formula_that_is_changed_back_is_heard(watched):
    """A browser reports no change of a field that is left with the text with which it was entered."""
    page = watched.turn(FAST)
    page.fill("#activation", "erf")
    watched.until("document.querySelector('.model [data-of=network]').textContent.includes('erf')")
    page.fill("#activation", "tanh")
    page.evaluate("document.activeElement.blur()")
    watched.slide("noise", 40)
    assert page.input_value("#activation") == "tanh"
    assert "σ = tanh" in page.inner_text(".model [data-of=network]")


def test_a_short_axis_has_ticks(watched):
    page = watched.turn(f"{FAST}&axis=ridge&from=5&to=5.1")
    # The numbers themselves, where the logarithms of 5 and of 5.1 have none of 1, 2 and 5 between them.
    assert page.locator("#errors .xtick text").all_text_contents() == ["5", "5.02", "5.04", "5.06", "5.08"]


def test_files_and_words_say_what_they_are_of(watched):
    """Grey points are of another setting, and the verdict has no noise in it even where the picture has."""
    page = watched.turn(
        f"{FAST}&A.noise=0.5&noise=both&axis=ridge&A.ridge=0.1n&A.before=ridge.24_1*4*2*0.1*2*0.1*2*0.1"
    )
    assert page.inner_text("#regime-verdict").endswith("kernel bound. This is without the label noise.")
    with page.expect_download() as saved:
        page.click("#downloads summary")
        page.click("[data-download=csv]")
    with open(saved.value.path(), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["kind"] for row in rows} == {"theory", "network of the setting before"}
    assert {row["label_noise_in"] for row in rows} == {"both"}
    theory = [row for row in rows if row["kind"] == "theory"]
    assert [float(row["ridge/n"]) for row in theory] == watched.traces()["test"]["x"]
    page.evaluate("document.querySelector('#errors-data').open = true")
    watched.until(
        "document.querySelector('#errors-data td:nth-child(2)')?.textContent === 'network of the setting before × 4'"
    )
    page.evaluate("document.querySelector('#errors-data').open = false")
    page.select_option("#noise-in", "neither")
    watched.settled()
    assert page.inner_text("#regime-verdict").endswith("kernel bound.")


#: Texts that are seen, their colours and what they lie on.
TEXTS = """() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const ground = (e) => (/, 0\\)$/.test(getComputedStyle(e).backgroundColor) ? ground(e.parentElement) : e);
  while (walk.nextNode()) {
    const { data, parentElement: e } = walk.currentNode;
    if (data.trim() && e.checkVisibility({ checkOpacity: true }) && !e.closest('svg, option, datalist, .unseen, .skip'))
      found.push([data.trim(), getComputedStyle(e).color, getComputedStyle(ground(e)).backgroundColor]);
  }
  return found;
}"""
#: What is pressed or dragged, and the shorter side of it.
TARGETS = """() => {
  const kinds = 'button, select, summary, input:not([type=checkbox]), label:has([type=checkbox])';
  return [...document.querySelectorAll(kinds)].filter((e) => e.checkVisibility()).map((e) => {
    const { width, height } = e.getBoundingClientRect();
    return [e.id || e.textContent.trim(), Math.min(width, height)];
  });
}"""


def contrast(one, other):
    """Contrast of two colours as WCAG 2.2 defines it."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    channels = [int(channel) / 255 for channel in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_phone_width_and_both_schemes(phone):
    """The page opens at night, and day breaks while it is open."""
    phone.page.emulate_media(color_scheme="dark")
    page = phone.open("#figure=fig1&B=wide&B.width=4&C=narrow&C.width=0.5")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click("details.more summary")
    darkness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] < 60"
    shown = """() => [document.getElementById('errors').data.filter(t => / test$/.test(t.name)).map(t => t.line.color),
       getComputedStyle(document.querySelector('.errors')).backgroundColor]"""
    colour = "document.getElementById('errors').data.find(t => / test$/.test(t.name)).line.color"
    lines = [None]
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        phone.until(f"({darkness}) === {json.dumps(scheme == 'dark')} && {colour} !== {json.dumps(lines[0])}")
        # The least that WCAG 2.2 asks for, contrast (1.4.3) and sizes (2.5.8).
        texts, targets = page.evaluate(TEXTS), page.evaluate(TARGETS)
        assert len(texts) > 60
        assert [text for text, *colours in texts if contrast(*colours) < 4.5] == []
        assert len(targets) > 40
        assert [name for name, size in targets if size < 24] == []
        # Settings of one regime are told apart by lightness, and none fades into the card.
        lines, card = page.evaluate(shown)
        assert len(set(lines)) == 3
        assert min(contrast(line, card) for line in lines) >= 3
    page.locator("#d").scroll_into_view_if_needed()
    # The figure stays in sight while the sliders move, and leaves room for them.
    box = page.locator("#errors").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] < 844 * 0.6
    phone.slide("d", 40)
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: dark"
    assert page.evaluate(darkness)


def test_on_a_phone_the_line_without_a_step_has_its_name(phone):
    """Beside the line for one setting, in the key below the figure for several."""
    page = phone.open(f"{FAST}&axis=n")
    for axis in ("n", "ridge", "eta"):
        page.select_option("#axis", axis)
        phone.settled()
        label = page.locator("#errors .annotation-text", has_text="no step").bounding_box()
        figure = page.locator("#errors").bounding_box()
        assert figure["x"] <= label["x"] <= label["x"] + label["width"] <= figure["x"] + figure["width"]
        assert figure["y"] <= label["y"] <= label["y"] + label["height"] <= figure["y"] + figure["height"]
    page.click("#compare")
    phone.until("document.querySelector('#key').innerText.includes('no step')")


@pytest.mark.parametrize("width", [320, pytest.param(1280, marks=pytest.mark.statistical)])
def test_formulas_and_labels_are_whole(sized, width):
    """The damped step is the longest formula, and "constant (100 %)" a long label at the right end of its axis."""
    watched = sized(width, 900)
    page = watched.open(f"{FAST}&A.activation=sigmoid&A.damping=0.3", studies=["spectrum"])
    cut = "[...document.querySelectorAll('.model math')].filter((each) => each.scrollWidth > each.clientWidth).length"
    assert page.evaluate(cut) == 0
    watched.until("document.querySelector('#spectrum .annotation-text')?.textContent.includes('constant')")
    inside = """() => [...document.querySelectorAll('#spectrum .annotation-text, #spectrum .xtitle')].every((text) => {
      const [here, all] = [text, document.getElementById('spectrum')].map((each) => each.getBoundingClientRect());
      return here.left >= all.left && here.right <= all.right;
    })"""
    assert page.evaluate(inside)


def test_the_buttons_of_the_setting_are_in_sight(sized):
    page = sized(1440, 900).open(FAST)
    for width, height in ((1440, 900), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        for name in ("best-both", "reset"):
            box = page.locator(f"#{name}").bounding_box()
            assert box["y"] + box["height"] <= height
        # What has the focus is not under them.
        page.locator("#teacher").focus()
        above = page.locator(".finish").bounding_box()["y"]
        for _ in range(30):
            page.keyboard.press("Tab")
            inside = page.evaluate("document.activeElement.closest('.controls > :not(.finish)') !== null")
            if inside:
                assert page.evaluate("document.activeElement.getBoundingClientRect().bottom") <= above + 1


def test_on_a_phone_the_focus_is_not_under_the_figure(phone):
    page = phone.open(FAST)
    page.locator("#reset").focus()
    seen = []
    for _ in range(60):
        page.keyboard.press("Shift+Tab")
        where = page.evaluate(
            """() => { const e = document.activeElement;
              return e.closest('.controls') && [e.id || e.textContent, e.getBoundingClientRect().top,
                document.querySelector('.errors').getBoundingClientRect().bottom]; }"""
        )
        if where is None:
            break
        seen.append(where)
    assert {"teacher", "n_step_kind"} <= {name for name, *_ in seen}
    assert [name for name, top, bottom in seen if top < bottom] == []


@pytest.mark.parametrize(("width", "height"), [pytest.param(1440, 900, marks=pytest.mark.statistical), (390, 844)])
def test_a_preset_leaves_its_note_in_sight(sized, api, width, height):
    watched = sized(width, height)
    page = watched.open(FAST)
    presets = api.get("/api/start").json()["presets"]
    presets = [next(p for p in reversed(presets) if p["shows"] == card) for card in ("learned", "spectrum")]
    for preset in presets:
        page.select_option("#preset", preset["name"])
        watched.settled()
        page.wait_for_timeout(300)
        for name in ("preset-note", "regime-title"):
            box = page.locator(f"#{name}").bounding_box()
            assert 0 <= box["y"] <= height - box["height"]
    # From there is a way to what the figure shows.
    page.click("#preset-note .link")
    watched.until(f"document.querySelector('.card.spectrum').getBoundingClientRect().bottom <= {height + 1}")


def test_colours_are_those_of_the_figures(api):
    style = api.get("/static/style.css").text
    for regime in ("initial", "small", "between", "few", "large", "infinite"):
        hue = HUES[regime]
        assert re.search(rf"--{regime}: light-dark\({hue},", style), regime
        # A slider wears it: what is no text must stand out three to one.
        assert contrast(f"rgb({int(hue[1:3], 16)}, {int(hue[3:5], 16)}, {int(hue[5:], 16)})", "rgb(255, 255, 255)") >= 3


def test_closing_the_tab_ends_its_simulation(tab, server):
    """It is the tab of the tests before: another one would compile all scripts anew."""
    page = tab.open(f"{FAST}&A.d=300")
    page.fill("#places", "20")
    page.fill("#seeds", "100")
    page.click("#run")
    tab.until("document.querySelector('#simulation-status').textContent.includes(' of 2000')")
    page.close()
    tab.check()
    server.wait_until_idle()


def test_a_page_goes_on_when_its_server_is_started_again(browser, start_server):
    server = start_server(workers=1)
    watched = Page(browser, server)
    page = watched.open(FAST)
    page.evaluate(HURRY)
    port = urllib.parse.urlsplit(server.address).port
    page.fill("#seeds", "100")
    page.click("#run")
    watched.until("document.getElementById('simulation-status').textContent.includes('networks')")
    server.process.kill()  # without a word of farewell
    watched.until("document.getElementById('error-simulate').textContent.includes('does not answer')")
    watched.write("noise-value", "0.4")
    watched.until("document.getElementById('failure').textContent.includes('does not answer')")
    assert page.locator("#regime-title").inner_text() == "No prediction for this setting"
    server = start_server(port, workers=1)
    watched.until("document.getElementById('regime-title').textContent !== 'No prediction for this setting'")
    assert page.locator("#failure").inner_text() == ""
    assert watched.shown() == pytest.approx(error_at(changed(readout="constant", noise=0.4)), rel=1e-3)
    # Ctrl-C while a curve is computed, which is then asked for again.
    page.click("details.more summary")
    page.select_option("#readout", "gaussian")  # whose curves of this activation take long
    page.fill("#activation", "x**2 + 0.3*x")
    page.wait_for_timeout(400)
    server.process.send_signal(signal.SIGINT)
    server.process.wait(30)
    start_server(port, workers=1)
    expected = gs.predict(problem_of({**DEFAULT, "noise": 0.4, "activation": "x**2 + 0.3*x"})).test_error
    watched.until(f"Math.abs(document.querySelector('#numbers dd').textContent / {expected!r} - 1) < 1e-3")
    assert page.locator("#failure").inner_text() == ""
    watched.context.close()
    assert all("ERR_" in complaint or "status of 503" in complaint for complaint in watched.complaints)
