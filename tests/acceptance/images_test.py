"""The companion library for pictures, companions/images.so: every format of ONNX's cases, damaged files, and what a model says without the library."""
import os
import random
import subprocess
import sys
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(ROOT, "tests/adapters"), os.path.join(BUILD, "python")]
import tenon  # noqa: E402
import totals  # noqa: E402

IMAGES = os.path.join(BUILD, "companions/images.so")
DATA = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/node")


def file_of(name):
    tensor = onnx.TensorProto()
    with open(os.path.join(DATA, f"test_image_decoder_decode_{name}_rgb/test_data_set_0/input_0.pb"), "rb") as source:
        tensor.ParseFromString(source.read())
    return numpy_helper.to_array(tensor)


@unittest.skipUnless(os.path.exists(IMAGES), "companions/images.so is not built: libjpeg and libpng are missing")
class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.decode = staticmethod(tenon.load(IMAGES).decode)

    def test_grey_pnm_comments_and_rows_of_a_bmp(self):
        self.assertEqual(self.decode(np.frombuffer(b"P5 # a comment\n2\t1\n255\n\x07\xff", np.uint8)).tolist(), [[[7] * 3, [255] * 3]])
        header = b"BM" + bytes(8) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little") + (1).to_bytes(4, "little")
        rows = bytes([1, 2, 3, 0]) + bytes([4, 5, 6, 0])  # blue, green, red, and one byte to fill up
        for height, expected in ((2, [[[6, 5, 4]], [[3, 2, 1]]]), (-2, [[[3, 2, 1]], [[6, 5, 4]]])):
            file = header + height.to_bytes(4, "little", signed=True) + (1).to_bytes(2, "little") + (24).to_bytes(2, "little") + bytes(24) + rows
            self.assertEqual(self.decode(np.frombuffer(file, np.uint8)).tolist(), expected)

    def test_damaged_files_are_errors(self):
        draw = random.Random(5)
        for name in ("bmp", "jpeg", "png", "pnm", "webp"):
            file = file_of(name)
            self.assertEqual(self.decode(file).shape, (32, 32, 3))
            for size in (0, 1, 5, 20, 60, len(file) // 2):
                with self.subTest(name, size=size):
                    try:
                        self.assertEqual(self.decode(file[:size]).shape, (32, 32, 3))  # libjpeg fills up what is missing
                    except tenon.Error as error:
                        self.assertRegex(str(error), "file cannot be read|no known format")
            for _ in range(100):
                damaged = file.copy()
                for _ in range(3):
                    damaged[draw.randrange(len(file))] = draw.randrange(256)
                try:
                    self.decode(damaged)
                except tenon.Error:
                    pass

    def test_sizes_that_no_memory_holds_are_refused(self):
        for file in (b"P6 2147483647 2147483647 255\n", b"P6 100000 100000 255\n", b"P6 99999999999999999999 1 255\n"):
            with self.assertRaisesRegex(tenon.Error, "the PNM file cannot be read"):
                self.decode(np.frombuffer(file, np.uint8))


class Without(unittest.TestCase):
    def test_a_model_says_which_library_it_needs(self):
        run = subprocess.run([os.path.join(BUILD, "tenon"), "run", os.path.join(DATA, "test_image_decoder_decode_png_rgb/model.onnx")], capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(run.stderr, r"ImageDecoder.*needs the library companions/images.so")


if __name__ == "__main__":
    totals.main()
