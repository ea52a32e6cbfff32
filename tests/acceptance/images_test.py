"""The companion library for pictures, companions/images.so: every format of ONNX's cases, damaged files, and what a model says without the library."""
import base64
import ctypes
import os
import random
import resource
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

# JPEG 2000 files of other writers: Pillow 12 (16 bits, alpha, codestream) and OpenJPEG 2.5 (4 bits with a sign; chrominances of half the size). All are lossless.
GREY = "AAAADGpQICANCocKAAAAFGZ0eXBqcDIgAAAAAGpwMiAAAAAtanAyaAAAABZpaGRyAAAAAwAAAAQAAQcHAAAAAAAPY29scgEAAAAAABEAAACganAyY/9P/1EAKQAAAAAABAAAAAMAAAAAAAAAAAAAAAQAAAADAAAAAAAAAAAAAQcBAf9SAAwAAAABAAEEBAAB/1wAB0BASEhQ/2QAJQABQ3JlYXRlZCBieSBPcGVuSlBFRyB2ZXJzaW9uIDIuNS40/5AACgAAAAAAKwAB/5PfgDAE7zrG4zfH2g0PqA4HzggB0aGqYX8ANx8KaP/Z"
WRITTEN = {
    "grey16": "AAAADGpQICANCocKAAAAFGZ0eXBqcDIgAAAAAGpwMiAAAAAtanAyaAAAABZpaGRyAAAAAwAAAAQAAQ8HAAAAAAAPY29scgEAAAAAABEAAACxanAyY/9P/1EAKQAAAAAABAAAAAMAAAAAAAAAAAAAAAQAAAADAAAAAAAAAAAAAQ8BAf9SAAwAAAABAAEEBAAB/1wAB0CAiIiQ/2QAJQABQ3JlYXRlZCBieSBPcGVuSlBFRyB2ZXJzaW9uIDIuNS40/5AACgAAAAAAPAAB/5PP/DAoAzQk9IaVb8z8v8/8SCo/8MBY/2JAoA0c2+igoR+3bX8EXmNLHwt8Q6B1/9k=",
    "rgba": "AAAADGpQICANCocKAAAAFGZ0eXBqcDIgAAAAAGpwMiAAAABPanAyaAAAABZpaGRyAAAAAwAAAAQABAcHAAAAAAAPY29scgEAAAAAABAAAAAiY2RlZgAEAAAAAAABAAEAAAACAAIAAAADAAMAAQAAAAAA+2pwMmP/T/9RADIAAAAAAAQAAAADAAAAAAAAAAAAAAAEAAAAAwAAAAAAAAAAAAQHAQEHAQEHAQEHAQH/UgAMAAAAAQABBAQAAf9cAAdAQEhIUP9kACUAAUNyZWF0ZWQgYnkgT3BlbkpQRUcgdmVyc2lvbiAyLjUuNP+QAAoAAAAAAH0AAf+Tz7QUBjKax7/H1AgGVMDfz7QUDWs3EQjH1AoFfhFhv8/AFh9QHD7QMA22wWtHCXPzC1K/z8AWfgBw+0DABImV8ScHJxcFhs/D6gWfgBx+AGAAK/Q0PwbnAgvzLcfaCx9oHD7QMAF6SrtnChVfCs0f/9k=",
    "codestream": "/0//UQAvAAAAAAAEAAAAAwAAAAAAAAAAAAAABAAAAAMAAAAAAAAAAAADBwEBBwEBBwEB/1IADAAAAAEAAAQEAAH/XAAEQED/ZAAlAAFDcmVhdGVkIGJ5IE9wZW5KUEVHIHZlcnNpb24gMi41LjT/kAAKAAAAAABBAAH/k8+0OAvzcufWgUYDFcmiUWFfz7Q4DFpZNHA3Lfugrq+DXp/PtDgBaKBrTNWWDFNd2UaaPP/Z",
    "signed": "AAAADGpQICANCocKAAAAFGZ0eXBqcDIgAAAAAGpwMiAAAAAtanAyaAAAABZpaGRyAAAAAwAAAAUAA4MHAAAAAAAPY29scgEAAAAAABAAAACvanAyY/9P/1EALwAAAAAABQAAAAMAAAAAAAAAAAAAAAUAAAADAAAAAAAAAAAAA4MBAYMBAYMBAf9SAAwAAAABAAAEBAAB/1wABEAg/2QAJQABQ3JlYXRlZCBieSBPcGVuSlBFRyB2ZXJzaW9uIDIuNS4w/5AACgAAAAAANwAB/5PfILAWxRpplt6PmGEuv8+EoAwPIRN8D33WiH/fILAdGihLwnHWml7pF//Z",
    "halved": "AAAADGpQICANCocKAAAAFGZ0eXBqcDIgAAAAAGpwMiAAAAAtanAyaAAAABZpaGRyAAAABAAAAAYAAwcHAAAAAAAPY29scgEAAAAAABIAAAC3anAyY/9P/1EALwAAAAAABgAAAAQAAAAAAAAAAAAAAAYAAAAEAAAAAAAAAAAAAwcBAQcCAgcCAv9SAAwAAAABAAAEBAAB/1wABEBA/2QAJQABQ3JlYXRlZCBieSBPcGVuSlBFRyB2ZXJzaW9uIDIuNS4w/5AACgAAAAAAPwAB/5PPtGgKl2+sxCCqBebRs1hobIMCZ35LfhpUpTQDu8+0IAS8XXetCYE/z7QYCbmUchTS/9k=",
}


def has_library(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


HAS_OPENJPEG = has_library("libopenjp2.so.7")


def written(name):
    return np.frombuffer(base64.b64decode(WRITTEN[name]), np.uint8)


def box(name, content):
    return (8 + len(content)).to_bytes(4, "big") + name + content


def with_palette(file, palette):
    """The JP2 file of one component with a palette of three columns: the boxes pclr and cmap at the end of the box jp2h."""
    at = file.index(b"jp2h") - 4
    size = int.from_bytes(file[at:at + 4], "big")
    added = box(b"pclr", len(palette).to_bytes(2, "big") + bytes([3, 7, 7, 7]) + palette.tobytes())
    added += box(b"cmap", b"".join(bytes([0, 0, 1, column]) for column in range(3)))
    return file[:at] + box(b"jp2h", file[at + 8:at + size] + added) + file[at + size:]


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

    def test_the_alpha_of_a_png_is_left_out(self):
        file = np.frombuffer(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAYAAAC09K7GAAAAPklEQVR4nAEzAMz/AfRjNIDEH0AA/NEFAN+1wwAE5smKAESCvQAUSBkA+I8VAARsE8UAXu3cAM6cZgBz/A8AFEMT5zx4ZzoAAAAASUVORK5CYII="), np.uint8)  # by Pillow
        rows = [[244, 99, 52], [184, 130, 116], [180, 83, 121], [147, 8, 60]], [[218, 44, 190], [252, 229, 123], [16, 45, 148], [8, 151, 81]]
        self.assertEqual(self.decode(file).tolist(), [*rows, [[70, 63, 131], [164, 210, 87], [222, 201, 225], [81, 197, 163]]])

    def test_damaged_files_are_errors(self):
        draw = random.Random(5)
        for name in ("bmp", "jpeg", "png", "pnm", "webp", *(["jpeg2k"] if HAS_OPENJPEG else [])):
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

    def test_a_progressive_jpeg_is_refused_before_memory_is_taken(self):
        file = file_of("jpeg").tobytes()
        frame = file.index(b"\xff\xc0")  # the header of a baseline picture: length, precision, height, width
        large = file[:frame] + b"\xff\xc2" + file[frame + 2:frame + 5] + (65500).to_bytes(2, "big") * 2 + file[frame + 9:]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with self.assertRaisesRegex(tenon.Error, r"the JPEG file cannot be read: expected 1 to 2\^28 pixels"):
            self.decode(np.frombuffer(large, np.uint8))
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 100 << 10)  # KiB; the coefficients would take 24 GiB

    @unittest.skipUnless(HAS_OPENJPEG, "libopenjp2.so.7 is not installed")
    def test_jpeg_2000_of_other_writers(self):
        grey = np.array([[62289, 2284, 9447, 53932], [62170, 16333, 20436, 56952], [27743, 17902, 54244, 16842]])
        self.assertEqual(self.decode(written("grey16")).tolist(), np.repeat(np.rint(grey / 257)[..., None], 3, 2).tolist())
        rows = [[76, 70, 193], [42, 250, 209], [2, 44, 178], [98, 2, 243]], [[50, 29, 14], [53, 50, 151], [46, 60, 230], [164, 156, 127]]
        rows += ([[154, 194, 195], [72, 153, 74], [58, 76, 105], [10, 213, 226]],)
        self.assertEqual(self.decode(written("rgba")).tolist(), list(rows))
        rows = [[168, 118, 214], [201, 69, 25], [185, 31, 36], [45, 158, 77]], [[46, 12, 218], [31, 12, 112], [24, 116, 11], [130, 22, 250]]
        rows += ([[129, 142, 80], [34, 93, 181], [32, 98, 165], [105, 50, 103]],)
        self.assertEqual(self.decode(written("codestream")).tolist(), list(rows))
        planes = [-3, 7, -8, -3, -8, -4, 0, 0, -2, 5, 0, -2, -5, -3, 4], [0, -5, 1, -6, 5, -7, -3, -4, 7, 2, -3, 7, 4, 2, -3], [7, 5, 5, -8, -8, -7, 7, -5, 5, -6, 3, 1, -5, 5, 6]
        self.assertEqual(self.decode(written("signed")).tolist(), ((np.array(planes) + 8) * 17).reshape(3, 3, 5).transpose(1, 2, 0).tolist())

    @unittest.skipUnless(HAS_OPENJPEG, "libopenjp2.so.7 is not installed")
    def test_jpeg_2000_with_chrominances_of_half_the_size(self):
        found = self.decode(written("halved")).astype(int)
        # As Pillow reads the file; it cuts the fraction off where this library rounds.
        pillow = [[0, 117, 216], [0, 111, 210], [0, 171, 32], [0, 240, 101], [139, 107, 255], [127, 95, 255]], [[54, 200, 255], [118, 255, 255], [0, 113, 0], [0, 104, 0], [35, 3, 236], [17, 0, 218]]
        pillow += [[255, 144, 255], [190, 34, 207], [200, 124, 202], [255, 216, 255], [161, 62, 255], [247, 148, 255]], [[235, 79, 252], [134, 0, 151], [141, 65, 143], [97, 21, 99], [130, 31, 234], [61, 0, 165]]
        self.assertTrue(set((found - pillow).ravel()) <= {0, 1}, found.tolist())

    @unittest.skipUnless(HAS_OPENJPEG, "libopenjp2.so.7 is not installed")
    def test_jpeg_2000_with_a_palette(self):
        draw = np.random.default_rng(4)
        palette = draw.integers(0, 256, (256, 3)).astype(np.uint8)
        grey = base64.b64decode(GREY)
        indices = self.decode(np.frombuffer(grey, np.uint8))[..., 0]
        self.assertEqual(indices.tolist(), [[255, 228, 34, 121], [243, 189, 6, 131], [102, 168, 82, 193]])
        self.assertEqual(self.decode(np.frombuffer(with_palette(grey, palette), np.uint8)).tolist(), palette[indices].tolist())

    @unittest.skipUnless(HAS_OPENJPEG, "libopenjp2.so.7 is not installed")
    def test_jpeg_2000_that_cannot_be_shown_is_refused(self):
        inks = written("rgba").copy()
        colr = inks.tobytes().index(b"colr")
        inks[colr + 7:colr + 11] = [0, 0, 0, 12]  # the colour space of cyan, magenta, yellow and black
        with self.assertRaisesRegex(tenon.Error, "4 components of printing inks: expected 1 to 4"):
            self.decode(inks)
        for size in (2**31 - 1, 16384):  # as one tile
            large = written("codestream").copy()
            for at in (8, 12, 24, 28):
                large[at:at + 4] = list(size.to_bytes(4, "big"))
            with self.assertRaisesRegex(tenon.Error, r"the JPEG 2000 file cannot be read: expected 1 to 2\^28 samples"):
                self.decode(large)
        precise = written("codestream").copy()
        precise[42] = 37  # 38 bits
        with self.assertRaisesRegex(tenon.Error, "the JPEG 2000 file cannot be read: "):
            self.decode(precise)

    @unittest.skipUnless(HAS_OPENJPEG, "libopenjp2.so.7 is not installed")
    def test_damaged_jpeg_2000_is_an_error(self):
        draw = random.Random(6)
        files = [written(name) for name in WRITTEN] + [np.frombuffer(with_palette(base64.b64decode(GREY), np.zeros((256, 3), np.uint8)), np.uint8)]
        for file in files:
            for _ in range(200):
                damaged = file.copy()
                for _ in range(2):
                    damaged[draw.randrange(len(file))] = draw.randrange(256)
                try:
                    self.assertEqual(self.decode(damaged[:draw.randrange(len(file) // 2, len(file) + 1)]).ndim, 3)
                except tenon.Error:
                    pass


class Without(unittest.TestCase):
    def test_a_model_says_which_library_it_needs(self):
        run = subprocess.run([os.path.join(BUILD, "tenon"), "run", os.path.join(DATA, "test_image_decoder_decode_png_rgb/model.onnx")], capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(run.stderr, r"ImageDecoder.*needs the library companions/images.so")


if __name__ == "__main__":
    totals.main()
