"""Tests the line reader. It builds the library and compares

* losses, gradients and texts with reference.json (PyTorch's results, and sums over all alignments);
* gradients with finite differences, and results of two threads with those of one thread;
* the messages of calls that are refused.

It reads pictures with the trained model without Python. Where PyTorch is installed, it also runs the checks of
render.py and of the network."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

TENON = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODEL, LINE = HERE / "reader.onnx", "pass Sky light change? 7's"  # of line.pgm
DTYPES = {"f32": np.float32, "f64": np.float64}
KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE, np.dtype(np.int64): TensorProto.INT64, np.dtype(np.float16): TensorProto.FLOAT16}
LOSS_INPUTS = ("log_probs", "targets", "input_lengths", "target_lengths")


ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": str(TENON.parent / "python")}


def compile_program(folder, name):
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I", ROOT / "include", "-L", TENON.parent, f"-Wl,-rpath,{TENON.parent}"]
    run(os.environ.get("CC", "cc"), HERE / f"{name}.c", *flags, "-ltenon", "-o", folder / name)
    return folder / name


def run(*command, status=0):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=ENVIRONMENT)
    assert result.returncode == status, f"{command}: {result.stdout[-500:]}{result.stderr[-1500:]}"
    return result.stdout if status == 0 else result.stderr


def array(case, key):
    dtype = np.int64 if "lengths" in key or key == "targets" else DTYPES[case["dtype"]]
    return np.array(case[key], dtype).reshape(case["shapes"].get(key, [-1]))


def call(folder, op, arrays, threads=1, status=0, device="cpu", **attributes):
    """Makes a model of one node, whose extents are all symbols, and runs it by the command."""
    outputs = {"ctc_loss": {"loss": None, "alpha": None}, "ctc_loss_backward": {"out": None}, "ctc_decode": {"text": TensorProto.STRING, "score": TensorProto.FLOAT}}[op]
    kind = KINDS[arrays["log_probs"].dtype]
    for name, value in arrays.items():
        np.save(folder / f"{name}.npy", value)
    node = helper.make_node(op, list(arrays), list(outputs), domain="reader", **attributes)
    values = [helper.make_tensor_value_info(name, KINDS[value.dtype], [f"{name}_{i}" for i in range(value.ndim)]) for name, value in arrays.items()]
    graph = helper.make_graph([node], "one", values, [helper.make_tensor_value_info(name, k or kind, None) for name, k in outputs.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("reader", 1)], ir_version=9), folder / "one.onnx")
    inputs = [part for name in arrays for part in ("-i", f"{name}=@{folder}/{name}.npy")]
    shown = run(TENON, "run", folder / "one.onnx", "--ops", folder / "reader.so", *inputs, "-o", folder, "-t", threads, "--device", device, status=status)
    return shown if status else {name: np.load(folder / f"{name}.npy") for name in outputs}


def losses(folder, cases):
    """Computes losses and gradients by the C program, and losses by the command."""
    program = compile_program(folder, "check")
    for case in cases:
        arrays = {name: array(case, name) for name in LOSS_INPUTS}
        for name in *arrays, "weights":
            np.save(folder / f"{name}.npy", array(case, name))
        loss, gradient = (np.array(case[name]).reshape(case["shapes"][name]) for name in ("loss", "gradient"))
        impossible = arrays["log_probs"] == -np.inf
        differences = case["dtype"] == "f64" and np.isfinite(loss).all() and not impossible.any()
        run(program, folder / "reader.so", folder, case["blank"], *["differences"] * bool(differences))
        error = case["error"] or [0, 0]  # f32: at most twice the error of PyTorch's own f32
        gradient[impossible] = 0  # PyTorch has nan there
        np.testing.assert_allclose(np.load(folder / "loss.npy"), loss, rtol=1e-9, atol=2 * error[0], err_msg=case["name"])
        np.testing.assert_allclose(np.load(folder / "gradient.npy"), gradient, rtol=0, atol=1e-9 + 2 * error[1], err_msg=case["name"])
        np.testing.assert_array_equal(call(folder, "ctc_loss", arrays, blank=case["blank"])["loss"], np.load(folder / "loss.npy"))


def texts(folder, cases):
    for case in cases:
        arrays = {name: array(case, name) for name in ("log_probs", "lengths")}
        attributes = {name: case[name] for name in ("alphabet", "blank", "beam")}
        found = call(folder, "ctc_decode", arrays, **attributes)
        assert found["text"].tolist() == case["text"], (case["name"], found["text"], case["text"])
        np.testing.assert_allclose(found["score"], case["score"], rtol=1e-6, err_msg=case["name"])
        for other in {"threads": 2}, {"device": "sim"}:  # a device has no kernel for it: numbers are copied to the host, texts are never on a device
            again = call(folder, "ctc_decode", arrays, **other, **attributes)
            assert again["text"].tolist() == case["text"] and again["score"].tobytes() == found["score"].tobytes(), (case["name"], other)


def edges(folder):
    """Of texts with equal scores the one that adds nothing, then the lower class; no frames; no possible text; no lines."""
    even, length = np.full((2, 1, 3), np.log(1 / 3)), np.array([2])
    for alphabet in "ab", "ba":
        found = call(folder, "ctc_decode", {"log_probs": even, "lengths": length}, alphabet=alphabet)
        assert found["text"].tolist() == [alphabet[0]] and np.isclose(found["score"][0], np.log(1 / 3)), found
    found = call(folder, "ctc_decode", {"log_probs": even, "lengths": length // 2}, alphabet="ab", beam=1)
    assert found["text"].tolist() == [""] and np.isclose(found["score"][0], np.log(1 / 3)), found
    nothing = np.concatenate([even, np.full_like(even, -np.inf)], 1)
    nothing[0, 1, 1] = 0
    found = call(folder, "ctc_decode", {"log_probs": nothing, "lengths": np.array([0, 2])}, alphabet="ab")
    assert found["text"].tolist() == ["", ""] and found["score"].tolist() == [0, -np.inf], found
    found = call(folder, "ctc_decode", {"log_probs": even[:, :0], "lengths": length[:0]}, alphabet="ab")
    assert found["text"].shape == found["score"].shape == (0,), found
    many = np.random.default_rng(1).normal(0, 1, (12, 150, 4))  # more lines than lanes
    found = call(folder, "ctc_decode", {"log_probs": many, "lengths": np.full(150, 12)}, 2, alphabet="abc", beam=3)
    for n in 0, 63, 64, 149:
        one = call(folder, "ctc_decode", {"log_probs": many[:, n : n + 1], "lengths": np.array([12])}, alphabet="abc", beam=3)
        assert one["text"][0] == found["text"][n] and one["score"][0] == found["score"][n], n


def refusals(folder):
    x, counts = np.zeros((4, 2, 3)), np.array([4, 4])
    loss = {"log_probs": x, "targets": np.array([[1, 2], [1, 1]]), "input_lengths": counts, "target_lengths": np.array([2, 1])}
    decode, bad = {"log_probs": x, "lengths": counts}, x.copy()
    bad[3, 1, 2] = np.nan
    backward = {"grad": np.ones(2)} | loss | {"loss": np.ones(2), "alpha": np.zeros((2, 4, 5))}
    cases = [
        ("ctc_loss", loss | {"input_lengths": np.array([4, 5])}, {}, "reader::ctc_loss: input_lengths[1] is 5, but must be from 0 to 4, the frames of log_probs (1 of 2 out of range)"),
        ("ctc_loss", loss | {"input_lengths": np.array([-1, 5])}, {}, "input_lengths[0] is -1, but must be from 0 to 4, the frames of log_probs (2 of 2 out of range)"),
        ("ctc_loss", loss | {"target_lengths": np.array([2, 3])}, {}, "target_lengths[1] is 3, but must be from 0 to 2, the width of targets"),
        ("ctc_loss", loss | {"targets": np.array([[1, 3], [1, 1]])}, {}, "targets[0][1] is 3, but log_probs has 3 classes, from 0"),
        ("ctc_loss", loss | {"targets": np.array([[1, 2], [-7, 1]])}, {}, "targets[1][0] is -7, but log_probs has 3 classes, from 0"),
        ("ctc_loss", loss, {"blank": 1}, "targets[0][0] is 1, the blank, which cannot be part of a text"),
        ("ctc_loss", loss, {"blank": 3}, "blank is 3, but log_probs has 3 classes: it must be less"),
        ("ctc_loss", loss, {"blank": -1}, "blank is -1, but must be a class of log_probs, from 0"),
        ("ctc_loss", loss | {"targets": np.ones((3, 2), np.int64)}, {}, "targets"),
        ("ctc_loss", loss | {"log_probs": x.astype(np.float16)}, {}, "log_probs"),
        ("ctc_loss", loss | {"log_probs": x[0]}, {}, "log_probs"),
        ("ctc_loss_backward", backward | {"input_lengths": np.array([4, 5])}, {}, "reader::ctc_loss_backward: input_lengths[1] is 5, but must be from 0 to 4"),
        ("ctc_loss_backward", backward | {"targets": np.array([[1, 3], [1, 1]])}, {}, "targets[0][1] is 3, but log_probs has 3 classes, from 0"),
        ("ctc_loss_backward", backward | {"alpha": np.zeros((2, 4, 4))}, {}, "alpha is of 4 states, but targets of this width have 5"),
        ("ctc_loss_backward", backward, {"blank": 3}, "blank is 3, but log_probs has 3 classes: it must be less"),
        ("ctc_decode", decode | {"lengths": np.array([5, 1])}, {"alphabet": "ab"}, "reader::ctc_decode: lengths[0] is 5, but must be from 0 to 4, the frames of log_probs (1 of 2 out of range)"),
        ("ctc_decode", decode | {"log_probs": bad}, {"alphabet": "ab"}, "log_probs[3][1][2] is nan, which is not the logarithm of a probability"),
        ("ctc_decode", decode | {"log_probs": x + np.inf}, {"alphabet": "ab"}, "is inf, which is not the logarithm of a probability"),
        ("ctc_decode", decode, {"alphabet": "abc"}, "alphabet has 3 characters, but log_probs has 3 classes: one for each character, and the blank"),
        ("ctc_decode", decode, {}, "alphabet"),
        ("ctc_decode", decode, {"alphabet": "aäa"}, "alphabet has 'a' (U+0061) twice, again at its character 2"),
        ("ctc_decode", decode, {"alphabet": b"a\xc3"}, "alphabet is not UTF-8 at its byte 1"),
        ("ctc_decode", decode, {"alphabet": b"\xc0\x80b"}, "alphabet is not UTF-8 at its byte 0"),
        ("ctc_decode", decode, {"alphabet": b"a\xed\xa0\x80"}, "alphabet is not UTF-8 at its byte 1"),
        ("ctc_decode", decode, {"alphabet": "ab", "beam": 0}, "beam is 0, but must be from 1 to 65536"),
        ("ctc_decode", decode, {"alphabet": "ab", "beam": 65537}, "beam is 65537, but must be from 1 to 65536"),
        ("ctc_decode", decode, {"alphabet": "ab", "blank": 3}, "blank is 3, but log_probs has 3 classes: it must be less"),
        ("ctc_decode", decode, {"alphabet": "ab", "blank": -1}, "blank is -1, but must be a class of log_probs, from 0"),
        ("ctc_decode", {"log_probs": np.zeros((32768, 1, 1)), "lengths": np.array([32768])}, {"alphabet": "", "beam": 65536}, "a beam of 65536 over 32768 frames of 1 classes is too large: make beam smaller"),
    ]
    for op, arrays, attributes, expected in cases:
        message = call(folder, op, arrays, status=1, **attributes)
        assert expected in message, f"{op} {attributes}: {message!r} lacks {expected!r}"
    return len(cases)


def deployment(folder):
    """Reads line.pgm by the C program and by the command, and checks the messages about wrong models and pictures."""
    library, read, line = folder / "reader.so", compile_program(folder, "read"), HERE / "line.pgm"
    assert run(read, MODEL, library, line, line) == 2 * f"{LINE}\n"
    assert f"text  string [1]  ['{LINE}']\n" in run(TENON, "run", MODEL, "--ops", library, "-i", f"picture=@{line}")
    assert MODEL.stat().st_size < 1e6
    content, header = MODEL.read_bytes(), line.read_bytes().split(b"255\n")[0]
    low, short, cut = folder / "low.pgm", folder / "short.pgm", folder / "cut.onnx"
    low.write_bytes(b"P5 100 31 255 " + bytes(3100))
    short.write_bytes(header + b"255\n" + bytes(99))
    both = subprocess.run([read, MODEL, library, low, short, folder / "gone.pgm", line], capture_output=True, text=True, env=ENVIRONMENT)
    assert both.returncode == 1 and both.stdout == f"{LINE}\n", both
    said = [f"{low}: input 'picture': expected extent 32 in axis 0, found shape [31, 100]", f"{short}: a PGM picture of 348 columns and 32 rows has 99 bytes of pixels: expected one byte for each pixel", f"{folder}/gone.pgm: No such file or directory"]
    assert both.stderr.splitlines() == [f"read: {message}" for message in said], both.stderr
    for size in 0, 100, len(content) // 2, len(content) - 1:
        cut.write_bytes(content[:size])
        message = run(read, cut, library, line, status=1)
        assert message.startswith("read: cut.onnx: ") and message.count("\n") == 1, message
    text = helper.make_tensor_value_info("text", TensorProto.UINT8, [32, "width"])
    cast = helper.make_graph([helper.make_node("Identity", ["picture"], ["text"])], "no texts", [helper.make_tensor_value_info("picture", TensorProto.UINT8, [32, "width"])], [text])
    onnx.save(helper.make_model(cast, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), cut)
    assert run(read, cut, library, line, status=1) == f"read: {cut} is not a model with one input (a picture) and an output `text` of strings\n"
    cut.write_bytes(content.replace(b"reader", b"raeder"))
    assert "raeder" in run(read, cut, library, line, status=1)
    cut.write_bytes(content.replace(b"ABCDEFG", b"ABCDEFA"))
    assert "alphabet has 'A' (U+0041) twice" in run(read, cut, library, line, status=1)


def with_pytorch(folder):
    """Runs the checks that need Pillow and PyTorch. Returns a text about each."""
    python, fonts = ROOT / ".venv-zoo/bin/python", pathlib.Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
    if not python.exists() or subprocess.run([python, "-c", "import PIL, torch"], capture_output=True).returncode:
        return "render.py and the network are not tested: Pillow and PyTorch are not in .venv-zoo (make test sets it up)"
    if not fonts.exists():
        return f"render.py and the network are not tested: {fonts} is not there (apt-get install fonts-dejavu-core)"
    parts = [run(python, HERE / "render_check.py")]
    if list((TENON.parent / "python/tenon").glob("_core.*.so")):
        parts.append(run(python, HERE / "network_check.py", TENON, folder / "reader.so", folder / "read", folder))
    else:
        parts.append("the network is not tested: Python's headers are not installed (python3-dev)")
    return "; ".join(part.strip().splitlines()[-1] for part in parts)


def main():
    reference = json.loads((HERE / "reference.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run(TENON, "build", HERE / "ctc.c", HERE / "decode.c", "-o", folder / "reader.so")
        losses(folder, reference["losses"])
        texts(folder, reference["texts"])
        edges(folder)
        refused = refusals(folder)
        deployment(folder)
        others = with_pytorch(folder)
    print(f"{len(reference['losses'])} losses with gradients equal PyTorch's, {len(reference['texts'])} batches of texts the reference's; {refused} bad calls are refused; {others}")


if __name__ == "__main__":
    main()
