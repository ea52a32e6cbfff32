#!/usr/bin/env python3
"""Draws lines of text, 32 pixels high, in the fonts of Debian's fonts-dejavu-core, and makes up the texts.

  render.py "some text" -o line.pgm             black on white
  render.py "some text" -o line.pgm --seed 7    font, size, place, contrast and noise by the seed
  render.py -o line.pgm --seed 7                a text by the seed as well, which it prints

A seed gives the same text everywhere, and the same picture with the same versions of Pillow and of the fonts."""
import argparse
import functools
import math
import pathlib
import sys
import typing

import numpy as np
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 32
FONT_FOLDER = pathlib.Path("/usr/share/fonts/truetype/dejavu")
FONTS = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf")
PACKAGE = "fonts-dejavu-core"
SIZES = (16, 26)  # pixels; the end is not included
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
PUNCTUATION = ".,:;!?'-()/%&"
ALPHABET = " " + LETTERS + LETTERS.upper() + DIGITS + PUNCTUATION  # the characters of pictures, in the order of the classes
LONGEST = 40  # characters of a random text

WORDS = """
a about above after again air all also always am an and animal another answer any apple are around as ask at autumn away back bank
be bear because bed before begin below best better between big bird black blue board boat body book both box boy bread bridge bring
brown build but buy by call came can car carry cat chair change child city clear clock close cloud coat cold colour come could
country cover cross cup cut dance dark day deep did different dish do dog door down draw dream dress drink drive dry each early
earth east easy eat edge egg eight end enough even evening every exam example eye face fact fall family far farm fast father few
field figure fill find fire first fish five floor flower fly follow food foot for forest four free friend from front fruit full
game garden gave get girl give glass go gold good grass great green ground group grow guess hair half hand happy hard has hat have
he head hear heart heavy help her here high hill him his hold home hope horse hot hour house how hundred ice idea if in into island
it jacket job join joke juice jump just keep key kind king kitchen knew knife know lake lamp land language large last late laugh
lazy lead leaf learn leave left leg less letter life light like line list listen little live long look lost love low machine made
main make man many map mark market may me mean measure meet middle might mile milk mind minute mirror money month moon more morning
most mother mountain mouth move much music must my name near neck need never new next night nine no north nose not note nothing now
number ocean of off often old on once one only open or orange order other our out over own page paint pair paper park part pass
pattern people perhaps person picture piece place plain plane plant play point poor possible power press print problem pull pupil
push put queen question quick quiet quite rain ran reach read ready real red rest rice right ring rise river road rock room round
rule run said sail salt same sand say school sea season second see seed sell send sentence seven several shape she ship shoe shop
short should show side simple since sing sit six size skin sky sleep slow small snow so some song soon sound south space speak
spring square stand star start state stay step still stone stop store story street strong student such sugar summer sun sure
surface swim table take talk tall tea teach tell ten test than that the their them then there these they thing think this those
though thousand three through time to today together told took top toward town train travel tree true try turn two under until up
us use usual valley very village visit voice voyage wait walk wall want war warm was wash watch water way we wear weather week well
went were west what wheel when where which while white who whole why wide wild will wind window winter wish with without woman wonder
wood word work world would write wrong yard year yellow yes yesterday yet you young your zebra zero zone
""".split()


# ---- texts ----


def random_digits(random, least, most):
    return "".join(random.choice(list(DIGITS), random.integers(least, most + 1)))


def random_word(random):
    kind = random.random()
    if kind < 0.8:  # a quarter of any letters, so that what is read is letters and not words
        word = WORDS[random.integers(len(WORDS))] if kind < 0.6 else "".join(random.choice(list(LETTERS), random.integers(1, 9)))
        return [word, word.capitalize(), word.upper()][random.choice(3, p=[0.6, 0.28, 0.12])]
    if kind < 0.9:
        return random_digits(random, 1, 5)
    if kind < 0.93:
        return random_digits(random, 1, 3) + "%"
    return random_digits(random, 1, 2) + random.choice(list(".:/-")) + random_digits(random, 2, 2)


def random_text(random, longest=LONGEST):
    """From 1 to `longest` characters of ALPHABET, without a space at either end."""
    length, text = random.integers(1, longest + 1), ""
    while True:
        word, kind = random_word(random), random.random()
        if kind < 0.2:
            word += random.choice(list(".,:;!?"))
        elif kind < 0.25:
            word = f"({word})" if random.random() < 0.5 else f"'{word}'"
        elif kind < 0.28:
            word += random.choice([" - ", " & ", "'s", "-" + WORDS[random.integers(len(WORDS))]])
        longer = f"{text} {word}".strip() if text else word.strip()
        if len(longer) > length:
            return text or longer[:length].strip()
        text = longer


# ---- pictures ----


class Style(typing.NamedTuple):
    font: str = FONTS[0]
    size: int = 22
    left: int = 4  # pixels of paper at the sides
    right: int = 4
    top: float = 0.5  # the part above the text of the height that the text leaves
    paper: float = 255
    ink: float = 0
    noise: float = 0  # standard deviation
    seed: int = 0  # of the noise


def random_style(random):
    size, (left, right) = random.integers(*SIZES), random.integers(1, 12, 2)
    paper = random.uniform(150, 255)
    ink = random.uniform(0, paper - 90)
    noise = random.uniform(0, 14) if random.random() < 0.8 else 0
    return Style(FONTS[random.integers(len(FONTS))], int(size), int(left), int(right), random.random(), paper, ink, noise, int(random.integers(2**32)))


@functools.lru_cache(maxsize=None)
def font_of(name, size):
    path = FONT_FOLDER / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: install Debian's package {PACKAGE} (apt-get install {PACKAGE})")
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def random_line(seed, longest=LONGEST):
    """The text and the style of a seed."""
    random = np.random.default_rng(seed)
    style = random_style(random)
    return random_text(random, longest), style


def extent_of(text, style):
    """Where the text begins and ends, relative to the pen. It may begin left of the pen, and ends with the ink or the
    advance of the last letter, whichever is farther right."""
    font = font_of(style.font, style.size)
    begin, _, end, _ = font.getbbox(text)
    return math.floor(min(begin, 0)), math.ceil(max(end, font.getlength(text)))


def render(text, style=Style()):
    """Draws a picture, [HEIGHT, width] u8, 255 is white. The width is that of the text and its margins."""
    strange = sorted(set(text) - set(ALPHABET))
    if strange:
        raise ValueError(f"{text!r} has {', '.join(map(repr, strange))}, which the alphabet lacks: {ALPHABET!r}")
    font = font_of(style.font, style.size)
    begin, end = extent_of(text, style)
    spare = HEIGHT - sum(font.getmetrics())
    page = Image.new("L", (style.left - begin + end + style.right, HEIGHT))
    ImageDraw.Draw(page).text((style.left - begin, round(spare * style.top)), text, 255, font)
    covered = np.asarray(page, np.float64) / 255
    picture = style.paper + (style.ink - style.paper) * covered
    if style.noise:
        picture += np.random.default_rng(style.seed).normal(0, style.noise, picture.shape)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def write_pgm(path, picture):
    height, width = picture.shape
    pathlib.Path(path).write_bytes(b"P5\n%d %d\n255\n" % (width, height) + picture.tobytes())


def main():
    parser = argparse.ArgumentParser(description="Renders a line of text.")
    parser.add_argument("text", nargs="?", help="the text; without one it is made by the seed, and printed")
    parser.add_argument("-o", "--output", required=True, help="a PGM file")
    parser.add_argument("-s", "--seed", type=int, help="of font, size, place, contrast and noise; without it black on white")
    arguments = parser.parse_args()
    if arguments.text is None and arguments.seed is None:
        parser.error("a text or a seed is needed")
    text, style = (None, Style()) if arguments.seed is None else random_line(arguments.seed)
    if arguments.text is None:
        print(text)
    else:
        text = arguments.text
    try:
        write_pgm(arguments.output, render(text, style))
    except (OSError, ValueError) as error:
        sys.exit(f"render: {error}")


if __name__ == "__main__":
    main()
