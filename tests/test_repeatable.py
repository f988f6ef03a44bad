"""Every run of the tests is the same: what they draw has seeds, and hypothesis tries the same examples."""

import ast
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

#: What draws from the clock or the system when it is given no seed.
UNSEEDED = {"default_rng", "RandomState", "SeedSequence", "Random"}
TESTS = Path(__file__).parent


def test_every_generator_has_a_seed() -> None:
    without = []
    for path in TESTS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        # Only where such a call may be: to parse all files takes long.
        suspect = re.search(rf"\b({'|'.join(UNSEEDED)})\s*\(\s*[)#]", text)
        for node in ast.walk(ast.parse(text)) if suspect else ():
            if isinstance(node, ast.Call) and not node.args and not node.keywords:
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in UNSEEDED:
                    without.append(f"{path.relative_to(TESTS)}:{node.lineno}: {name}()")
    assert not without


def test_hypothesis_tries_the_same_examples_in_every_run() -> None:
    def tried() -> list[float]:
        found: list[float] = []

        @settings(max_examples=20)
        @given(st.floats(-5, 5))
        def draw(value: float) -> None:
            found.append(value)

        draw()
        return found

    assert len(tried()) >= 10
    assert tried() == tried()
