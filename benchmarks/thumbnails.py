"""Make the pictures of the figures that the page cannot compute from those of a report.

python -m benchmarks.thumbnails reports    # after: gradstep reproduce --all --out reports
"""

import sys
from pathlib import Path

from PIL import Image

from gradstep.app import presets

FOLDER = Path(presets.__file__).parent / "static" / "figures"
#: Pixels across: what stands beside the controls of the page.
WIDTH = 800


def make(report: Path) -> int:
    """Write one picture for each figure, delete those of others, and return the bytes that all take."""
    names = {figure["name"] for figure in presets.elsewhere(presets.presets())}
    for old in FOLDER.glob("*.webp"):
        if old.stem not in names:
            old.unlink()
    for name in sorted(names):
        with Image.open(report / f"{name}.png") as picture:
            size = (WIDTH, round(picture.height * WIDTH / picture.width))
            picture.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(
                FOLDER / f"{name}.webp", quality=40, method=6
            )
    return sum(file.stat().st_size for file in FOLDER.glob("*.webp"))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    print(f"{make(Path(sys.argv[1])) / 1000:.0f} kB in {FOLDER}")
