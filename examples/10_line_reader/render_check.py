"""Tests render.py; check.py runs it where Pillow and the fonts are installed."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw

import render

HERE = pathlib.Path(__file__).resolve().parent


def texts():
    """Texts of a seed use the alphabet, and all of it, and are not too long."""
    random = np.random.default_rng(1)
    made = [render.random_text(random) for _ in range(3000)]
    assert all(1 <= len(text) <= render.LONGEST and text == text.strip() for text in made)
    assert set("".join(made)) == set(render.ALPHABET) and len(set(render.ALPHABET)) == len(render.ALPHABET)
    random = np.random.default_rng(1)
    assert made[:100] == [render.random_text(random) for _ in range(100)]


def ink():
    """Every character in every font and size, at the top and at the bottom, has as much ink without margins as with
    room all around."""
    count = 0
    for name in render.FONTS:
        for size in range(*render.SIZES):
            font = render.font_of(name, size)
            for text in render.ALPHABET.strip():
                page = Image.new("L", (100, 100))
                ImageDraw.Draw(page).text((30, 30), text, 255, font)
                for top in (0.0, 1.0):
                    picture = render.render(text, render.Style(font=name, size=size, left=0, right=0, top=top))
                    assert picture.shape[0] == render.HEIGHT and picture.dtype == np.uint8
                    assert (255 - picture.astype(int)).sum() == np.asarray(page, int).sum(), (name, size, top, text)
                    count += 1
    return count


def seeds():
    pictures = []
    for seed in (1, 1, 2):
        random = np.random.default_rng(seed)
        pictures.append(render.render("the same text", render.random_style(random)))
    assert np.array_equal(pictures[0], pictures[1]) and not np.array_equal(pictures[0], pictures[2])
    random = np.random.default_rng(3)
    styles = [render.random_style(random) for _ in range(500)]
    assert {style.font for style in styles} == set(render.FONTS) and {style.size for style in styles} == set(range(*render.SIZES))
    assert all(style.paper - style.ink >= 89 for style in styles)
    style = render.Style(paper=200, ink=40)
    plain, noisy = (render.render("noise", style._replace(noise=noise)).astype(float) for noise in (0, 10))
    assert plain.max() == 200 and plain.min() == 40 and 9 < (noisy - plain).std() < 11


def command():
    with tempfile.TemporaryDirectory() as folder:
        line = pathlib.Path(folder) / "line.pgm"

        def call(*arguments):
            return subprocess.run([sys.executable, HERE / "render.py", *arguments, "-o", line], capture_output=True, text=True)

        assert call("some text").returncode == 0
        np.testing.assert_array_equal(np.asarray(Image.open(line)), render.render("some text"))
        made = call("--seed", "7")
        assert made.returncode == 0 and 1 <= len(made.stdout.strip()) <= render.LONGEST
        before = line.read_bytes()
        assert call("--seed", "7").stdout == made.stdout and line.read_bytes() == before
        bad = call("naïve")
        assert bad.returncode == 1 and "'naïve' has 'ï', which the alphabet lacks" in bad.stderr, bad.stderr
    folder, render.FONT_FOLDER = render.FONT_FOLDER, pathlib.Path("/nowhere")
    render.font_of.cache_clear()
    try:
        render.render("some text")
        raise AssertionError("fonts that are not there were found")
    except FileNotFoundError as error:
        assert "/nowhere/DejaVuSans.ttf is not there: install Debian's package fonts-dejavu-core" in str(error), error
    render.FONT_FOLDER = folder


if __name__ == "__main__":
    texts()
    count = ink()
    seeds()
    command()
    print(f"{count} pictures keep all their ink")
