"""Contact sheets: quick to write, and captions that can be read."""

import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datalens.workflows.pictures import contact_sheet, save_sheet


def noisy(count: int, side: int) -> np.ndarray:
    """Colour images as generators make them: smooth, with grain."""
    chance = np.random.default_rng(0)
    smooth = chance.integers(60, 190, (count, 3, 1, 1)) + np.arange(side) % 60
    return np.clip(smooth + chance.normal(0, 8, (count, 3, side, side)), 0, 255).astype(np.uint8)


def test_a_sheet_is_quick_to_write_and_not_much_larger(tmp_path: Path) -> None:
    sheet = contact_sheet(noisy(40, 64), 8)
    seconds = []
    for name in ("smallest", "own"):
        began = time.process_time()
        if name == "own":
            save_sheet(sheet, tmp_path / name)
        else:
            sheet.save(tmp_path / name, format="PNG", optimize=True)
        seconds.append(time.process_time() - began)
    assert seconds[1] < seconds[0] / 2
    assert (tmp_path / "own").stat().st_size < 1.03 * (tmp_path / "smallest").stat().st_size
    with Image.open(tmp_path / "own") as found:
        assert (np.asarray(found) == np.asarray(sheet)).all()


@pytest.mark.parametrize("side, caption", [(28, "x"), (64, "x"), (64, "NOT PRIVATE. " * 8)])
def test_a_caption_can_be_read_at_the_width_of_a_page(side: int, caption: str) -> None:
    """Its letters are a fortieth of the width, or as large as let it end on the picture."""
    images = noisy(10, side)
    bare = contact_sheet(images, 10)
    below = np.asarray(contact_sheet(images, 10, caption=caption))[bare.height :, :, 0]
    ink = np.argwhere(below < 128)
    high = np.ptp(ink[:, 0]) + 1
    assert ink[:, 1].max() < bare.width - 1  # none is cut off
    if len(caption) == 1:
        assert high >= 0.4 * bare.width / 40  # an x is half as high as its line


def test_a_long_caption_goes_on_in_the_next_line() -> None:
    """On a small picture nothing of it is cut off: letters cannot be made ever smaller."""
    images = noisy(10, 8)
    bare = contact_sheet(images, 10)
    lines = contact_sheet(images, 10, caption="words " * 12)
    once = contact_sheet(images, 10, caption="words")
    assert lines.height - bare.height > 2 * (once.height - bare.height) - 10
    below = np.asarray(lines)[bare.height :, :, 0]
    assert np.argwhere(below < 128)[:, 1].max() < bare.width - 1
