"""Artifacts: every graph that a case of ONNX's suite or the zoo contains gives the same bits from its artifact as from the model, those of
the zoo also in a new process, from C and from torch.ops, and so do gradients; two processes share the pages of an artifact's weights; an
artifact of another processor is compiled again. Run with a Python that has NumPy, onnx and torch (.venv-zoo)."""
import glob
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnx.numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
DATA = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
ZOO = sorted(glob.glob(os.path.join(BUILD, "zoo", "*.onnx")))
FLOOR = 1400  # cases that run from NumPy arrays; raise it when more can
COMMAND = os.path.join(BUILD, "tenon")
LARGE = 2**24  # bytes of a model that takes long
sys.path[:0] = os.path.join(BUILD, "python"), os.path.join(ROOT, "tests/adapters")

import tenon  # noqa: E402
import totals  # noqa: E402


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def made_up(graph):
    """Inputs of a graph: 0 and 1 for integers, so that they are valid indices and masks."""
    random = np.random.default_rng(7)
    shapes = [[extent if isinstance(extent, int) else 2 for extent in shape] for _, _, shape in graph.inputs]
    return [random.integers(0, 2, shape) if dtype == "i64" else random.standard_normal(shape, np.float32)
            for (_, dtype, _), shape in zip(graph.inputs, shapes)]


def result_of(array):
    """What is compared of a result."""
    return str(array.dtype), array.shape, repr(array.tolist()).encode() if array.dtype == object else array.tobytes()


def results(graph, values):
    """The bytes of the results of a run, or the message of its failure."""
    try:
        found = graph.compile()(*values)
    except tenon.Error as error:
        return str(error)
    found = found if isinstance(found, (list, tuple)) else [found]
    return [result_of(np.asarray(each)) for each in found]


def by_python(path, values):
    return results(tenon.graph.load(path), values)


def by_torch(path, values):
    """The same from torch.ops.tenon.run."""
    import torch

    import tenon.torch

    tenon.torch.load(path)  # makes the operator known
    return [result_of(each.numpy()) for each in torch.ops.tenon.run([torch.from_numpy(value) for value in values], model=path)]


def stored_inputs(folder):
    """The inputs of the first data set of a case; None: one of them is no tensor, or there are none."""
    values = []
    for path in sorted(glob.glob(os.path.join(folder, "test_data_set_0", "input_*.pb")), key=lambda name: int(re.findall(r"\d+", name)[-1])):
        try:
            values.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(contents(path))))
        except Exception:  # a sequence or an optional value
            return None
    return values


def is_promised(ports, found):
    """Whether the ports of an artifact say all that those of the model say. They may say more: the compiler found extents."""
    if [name for name, _, _ in ports] != [name for name, _, _ in found]:
        return False
    for (_, dtype, stated), (_, found_dtype, shape) in zip(ports, found):
        if dtype not in (None, found_dtype):
            return False
        if stated is None:
            continue
        if shape is None or len(stated) != len(shape):
            return False
        if any(a != b and not (isinstance(a, str) and "?" in a) for a, b in zip(stated, shape)):
            return False
    return True


class Artifacts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.artifact = os.path.join(self.folder, "model.tenon")

    def made_of(self, graph):
        graph.save(self.artifact)
        return tenon.graph.load(self.artifact)

    def test_every_case_of_onnx_gives_the_same_bits(self):
        count = 0
        for path in sorted(glob.glob(os.path.join(DATA, "*", "*", "model.onnx"))):
            try:
                graph = tenon.graph.load(path)
                values = stored_inputs(os.path.dirname(path))
                first = results(graph, values) if values is not None else None
                is_random = first is None or results(graph, values) != first
            except (tenon.Error, TypeError, ValueError):
                continue  # tests/acceptance/onnx_test.py counts these
            if is_random:
                continue
            with self.subTest(case=os.path.basename(os.path.dirname(path))):
                try:
                    read = self.made_of(graph)
                except tenon.Error as error:
                    self.assertRegex(str(error), "has no constants of layout|more than 32 graphs")
                    continue
                self.assertEqual(read.inputs, graph.inputs)
                self.assertTrue(is_promised(graph.outputs, read.outputs), (graph.outputs, read.outputs))
                self.assertEqual(results(read, values), first)
                count += 1
        self.assertGreaterEqual(count, FLOOR)

    def check_models(self, is_large):
        """Compares what is computed from the artifact of each small or large model with the imported model, whoever runs it.
        PyTorch runs large ones in a process of their own, because it keeps what it has loaded."""
        paths = [path for path in ZOO if (os.path.getsize(path) > LARGE) == is_large]
        if not paths:
            self.skipTest(f"no {'large' if is_large else 'small'} models in build/zoo (make zoo)")
        for path in paths:
            with self.subTest(model=os.path.basename(path)):
                graph = tenon.graph.load(path)
                values = made_up(graph)
                self.artifact = os.path.join(self.folder, os.path.basename(path)[:-len(".onnx")] + ".tenon")
                read = self.made_of(graph)
                self.assertTrue(is_promised(graph.outputs, read.outputs))
                first = results(graph, values)
                self.assertIsInstance(first, list)
                self.assertEqual(results(read, values), first)
                del graph, read
                self.assertEqual(self.in_new_process(values), first)
                self.assertEqual(self.by_the_command(values), first)
                self.assertEqual(self.in_new_process(values, by="by_torch") if is_large else by_torch(self.artifact, values), first)
                os.remove(self.artifact)

    def test_every_small_model_of_the_zoo_gives_the_same_bits(self):
        self.check_models(False)

    @totals.takes_turns
    def test_every_large_model_of_the_zoo_gives_the_same_bits(self):
        self.check_models(True)

    def test_gradients_of_small_models_are_the_same_bits(self):
        small = [path for path in ZOO if os.path.getsize(path) <= LARGE]
        if not small:
            self.skipTest("no small models in build/zoo (make zoo)")
        for path in small:
            with self.subTest(model=os.path.basename(path)):
                graph = tenon.graph.load(path)
                self.check_gradients(graph, self.made_of(graph))

    def check_gradients(self, graph, read):
        """Compares gradients of the inputs and of two constants, all of f32, or the refusals."""
        computed = {name for node in graph.nodes for name in node.outputs}
        wanted = [name for name, dtype, _ in graph.inputs if dtype == "f32"]
        wanted += [name for name in graph.values if name.endswith(".bias") and name not in computed][:2]
        try:
            first = graph.gradients(wanted, given=True)
        except tenon.UnimplementedError as error:
            with self.assertRaisesRegex(tenon.UnimplementedError, re.escape(str(error))):
                read.gradients(wanted, given=True)
            return
        second = read.gradients(wanted, given=True)
        self.assertEqual((second.inputs, second.outputs), (first.inputs, first.outputs))
        values, random = made_up(first), np.random.default_rng(8)
        values[len(values) - len(graph.outputs):] = [random.standard_normal(shape, np.float32) for _, shape, _ in results(graph, made_up(graph))]
        found = results(first, values)
        self.assertIsInstance(found, list)
        self.assertEqual(len(found), len(graph.outputs) + len(wanted))
        self.assertTrue(all(np.frombuffer(each, np.float32).any() for _, _, each in found))
        self.assertEqual(results(second, values), found)

    def by_the_command(self, values):
        """The results that the command, which is written in C, computes from the artifact."""
        graph, arguments = tenon.graph.load(self.artifact), []
        for i, ((name, _, _), value) in enumerate(zip(graph.inputs, values)):
            np.save(os.path.join(self.folder, f"in_{i}.npy"), value)
            arguments += ["-i", f"{name}=@{self.folder}/in_{i}.npy"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([COMMAND, "run", self.artifact, *arguments, "-o", folder], check=True, capture_output=True)
            return [result_of(np.load(os.path.join(folder, f"{name}.npy"))) for name, _, _ in graph.outputs]

    def network(self):
        """Writes a network with packed weights, and returns its path and inputs."""
        nodes, random = tenon.graph.ops.core, np.random.default_rng(3)
        b = tenon.graph.Builder()
        y = b.input("x", "f32", ["n", 256])
        for step in range(4):
            y = nodes.relu(nodes.matmul(y, b.constant(random.standard_normal((256, 256), np.float32), f"w{step}")))
        path = os.path.join(self.folder, "model.onnx")
        b.finish({"y": y}).save(path)
        return path, [random.standard_normal((3, 256), np.float32)]

    def test_the_command_compiles_and_runs_an_artifact(self):
        path, (x,) = self.network()
        self.assertEqual(subprocess.run([COMMAND, "compile", path], check=True, capture_output=True, text=True).stdout, f"wrote {self.artifact}\n")
        np.save(os.path.join(self.folder, "x.npy"), x)
        found = []
        for model in path, self.artifact:
            subprocess.run([COMMAND, "run", model, "-i", f"x=@{self.folder}/x.npy", "-o", self.folder], check=True, capture_output=True)
            found.append(contents(os.path.join(self.folder, "y.npy")))
        self.assertEqual(found[0], found[1])
        refused = subprocess.run([COMMAND, "compile", path, "-o", "model.onnx"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("the name of an artifact ends with .tenon: write -o model.onnx.tenon", refused.stderr)

    def test_the_command_shows_and_verifies_an_artifact(self):
        path, _ = self.network()
        subprocess.run([COMMAND, "compile", path], check=True, capture_output=True)
        show = lambda **limit: subprocess.run([COMMAND, "show", self.artifact], capture_output=True, text=True, env=dict(os.environ, **limit))
        self.assertRegex(show().stdout, r"(?s)all checksums are right\nweights: 4, 1.00 MiB\npacked .*this process uses the compiled graph\n")
        self.assertRegex(show(TENON_CPU_CAPABILITY="default").stdout, r"(?s)    but here: processor: default\n.*compiles the original graph again")
        with open(self.artifact, "r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)[0]
            file.seek(-1, 2)
            file.write(bytes([last ^ 1]))
        self.assertRegex(show().stderr, r"^tenon: model.tenon: the artifact is damaged: .*expected checksum")
        light = sorted(glob.glob(os.path.join(DATA, "light", "*_output_0.pb")))[0]
        model = light.replace("_output_0.pb", ".onnx")
        os.symlink(light, os.path.join(self.folder, os.path.basename(light)))
        artifact = os.path.join(self.folder, os.path.basename(model)).replace(".onnx", ".tenon")
        subprocess.run([COMMAND, "compile", model, "-o", artifact], check=True, capture_output=True)
        self.assertIn("1 passed, 0 failed, 0 skipped", subprocess.run([COMMAND, "verify", artifact], capture_output=True, text=True).stdout)

    def test_another_process_or_limit_compiles_the_model_again(self):
        path, (x,) = self.network()
        np.save(os.path.join(self.folder, "x.npy"), x)
        subprocess.run([COMMAND, "compile", path], check=True, capture_output=True)
        found = []
        for model in path, self.artifact:
            subprocess.run([COMMAND, "run", model, "-i", f"x=@{self.folder}/x.npy", "-o", self.folder], check=True, capture_output=True,
                           env=dict(os.environ, TENON_CPU_CAPABILITY="default"))
            found.append(contents(os.path.join(self.folder, "y.npy")))
        self.assertEqual(found[0], found[1])

    def test_pytorch_runs_an_artifact(self):
        import torch

        import tenon.torch

        path, (x,) = self.network()
        tenon.graph.load(path).save(self.artifact)
        x = torch.from_numpy(x)
        self.assertTrue(torch.equal(tenon.torch.load(path)(x), tenon.torch.load(self.artifact)(x)))
        first, second = (torch.ops.tenon.run([x], model=model)[0] for model in (path, self.artifact))
        self.assertTrue(torch.equal(first, second))
        x.requires_grad_()
        gradients = [torch.autograd.grad(torch.ops.tenon.run([x], model=model)[0].sum(), x)[0] for model in (path, self.artifact)]
        self.assertTrue(torch.equal(*gradients))

    def test_what_an_artifact_is_made_of_can_be_written_again(self):
        path, values = self.network()
        tenon.graph.load(path).save(self.artifact)
        again = os.path.join(self.folder, "again.onnx")
        tenon.graph.load(self.artifact).save(again)
        self.assertEqual(contents(path), contents(again))
        self.assertEqual(results(tenon.graph.load(contents(self.artifact)), values), results(tenon.graph.load(path), values))

    def test_every_damaged_blob_is_refused_before_it_is_used(self):
        path, values = self.network()
        graph = tenon.graph.load(path)
        expected, whole = results(graph, values), contents(self.made_of(graph) and self.artifact)
        refused = 0
        for at in range(64, len(whole), len(whole) // 400):  # behind the header
            damaged = bytearray(whole)
            damaged[at] ^= 16
            try:
                found = results(tenon.graph.load(bytes(damaged)), values)
            except tenon.Error as error:
                found = str(error)
            if found != expected:
                self.assertRegex(found, "the artifact is damaged: .*: copy the file again, or compile the model again with tenon compile")
                refused += 1
        self.assertGreater(refused, 150)  # the originals of packed weights, which runs do not read, are the other half
        for damaged in whole[:100], whole[:-1]:
            with self.assertRaisesRegex(tenon.Error, "the artifact is damaged"):
                tenon.graph.load(damaged)

    def test_two_processes_share_the_pages_of_the_weights(self):
        path, _ = self.network()
        tenon.graph.load(path).save(self.artifact)
        code = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, tenon
run = tenon.graph.load(sys.argv[2]).compile()
run(np.zeros((3, 256), np.float32))
print("ready", flush=True)
sys.stdin.readline()
size = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}
inside = False
for line in open("/proc/self/smaps"):
    words = line.split()
    if "-" in words[0]:
        inside = line.rstrip().endswith(".tenon")
    elif inside and words[0][:-1] in size:
        size[words[0][:-1]] += int(words[1])
print(size["Rss"], size["Pss"], size["Private_Dirty"], flush=True)
sys.stdin.readline()
"""
        command = [sys.executable, "-c", code, os.path.join(BUILD, "python"), self.artifact]
        processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            for process in processes:
                self.assertEqual(process.stdout.readline(), "ready\n")
            for process in processes:
                process.stdin.write("\n")
                process.stdin.flush()
            for process in processes:
                resident, proportional, dirty = map(int, process.stdout.readline().split())
                self.assertGreater(resident, 4 * 256)  # KiB: four packed matrices of 256 KiB
                self.assertLess(proportional, 0.6 * resident)
                self.assertEqual(dirty, 0)
        finally:
            for process in processes:
                process.communicate("\n", timeout=60)

    def in_new_process(self, values, by="by_python"):
        np.savez(os.path.join(self.folder, "values.npz"), *values)
        code = """
import os, sys
sys.path[:0] = sys.argv[1:3]
import numpy as np, artifact_test, tenon
stored = np.load(os.path.join(sys.argv[3], "values.npz"))
found = getattr(artifact_test, sys.argv[4])(sys.argv[5], [stored[name] for name in stored.files])
print(repr(found) if isinstance(found, str) else repr([(d, s, artifact_test.hashlib.sha256(b).hexdigest()) for d, s, b in found]))
"""
        run = subprocess.run([sys.executable, "-c", code, os.path.join(BUILD, "python"), os.path.dirname(os.path.abspath(__file__)), self.folder, by,
                              self.artifact], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        values = Hashed.of(eval(run.stdout))
        return values


class Packed(unittest.TestCase):
    """Operator libraries inside of artifacts."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.library, self.model, self.artifact = (os.path.join(self.folder, name) for name in ("gelu.so", "gelu.onnx", "gelu.tenon"))
        subprocess.run([COMMAND, "build", os.path.join(ROOT, "examples/01_gelu/gelu.c"), "-o", self.library], check=True, capture_output=True)
        self.run_command("model", "demo::gelu", "--ops", self.library, "-i", "x=f32[rows,4]", "-o", self.model)

    def run_command(self, *arguments, status=0, **environment):
        clean = {name: value for name, value in os.environ.items() if name != "TENON_LIBRARY_PATH"}
        run = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, cwd=self.folder, env=dict(clean, **environment))
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stdout + run.stderr

    def run_model(self, model, *more, **options):
        text = self.run_command("run", model, "-i", "x=random:3", "-d", "rows=2", *more, **options)
        return re.sub(r"time .*\n", "", text)

    def for_other_processor(self):
        """A copy of the library that says that it is for AArch64."""
        path = os.path.join(self.folder, "other", "gelu.so")
        os.mkdir(os.path.dirname(path))
        data = bytearray(contents(self.library))
        data[18:20] = b"\xb7\0"
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_the_library_inside_is_found(self):
        expected = self.run_model(self.model, "--ops", self.library)
        both = f"{self.library},{self.for_other_processor()}"
        self.assertIn("wrote", self.run_command("pack", self.model, "--ops", both, "-o", self.artifact))
        os.remove(self.library)
        self.assertEqual(self.run_model(self.artifact), expected)

    def test_a_library_that_is_not_inside_is_found_by_name_or_named(self):
        expected = self.run_model(self.model, "--ops", self.library)
        self.run_command("compile", self.model, "--ops", self.library, "-o", self.artifact)
        self.assertEqual(self.run_model(self.artifact, TENON_LIBRARY_PATH=self.folder), expected)
        self.assertEqual(self.run_model(self.artifact, "--ops", self.library), expected)
        message = self.run_model(self.artifact, TENON_LIBRARY_PATH="/nowhere", status=1)
        self.assertRegex(message, r"gelu.tenon: the model needs library demo 1.0.0 \(gelu.so\), which is not loaded: inside of the "
                                  r"artifact: no; along the search path: .*/nowhere.*: load it first, or put it into the artifact with tenon pack")

    def test_a_library_for_another_processor_is_named(self):
        code = """
import ctypes, sys
library, graph = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
library.tenon_error.restype = ctypes.c_char_p
library.tenon_graph_pack.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32]
own, other, model, artifact = (each.encode() for each in sys.argv[2:])
status = library.tenon_library_load(own, 0, None) or library.tenon_graph_load(model, None, ctypes.byref(graph)) \\
    or library.tenon_graph_pack(graph, artifact, (ctypes.c_char_p * 1)(other), 1)
sys.exit(library.tenon_error().decode() if status else 0)
"""
        subprocess.run([sys.executable, "-c", code, os.path.join(BUILD, "libtenon.so"), self.library, self.for_other_processor(), self.model, self.artifact],
                       check=True)
        self.assertRegex(self.run_model(self.artifact, status=1),
                         r"library demo 1.0.0 \(gelu.so\), which is not loaded: inside of the artifact: for other processors only: aarch64; along")

    def test_the_rules_of_the_process_hold_for_libraries_inside(self):
        self.run_command("pack", self.model, "--ops", self.library, "-o", self.artifact)
        rules = os.path.join(self.folder, "rules")

        def run(rule, status):
            with open(rules, "w") as file:
                file.write(rule + "\n")
            os.chmod(rules, 0o600)
            return self.run_model(self.artifact, TENON_POLICY=rules, status=status)

        own = hashlib.sha256(contents(self.library)).hexdigest()
        self.assertIn("rule folders", run("folder /opt", 1))
        self.assertIn("rule sha256", run(f"sha256 {'0' * 64}", 1))
        self.assertIn("out ", run(f"folder {self.folder}\nsha256 {own}\ninert\nprivate", 0))
        os.chmod(self.artifact, 0o666)
        self.assertRegex(run("private", 1), r"rule private .*gelu.tenon is writable")

    def test_what_is_no_library_is_refused(self):
        self.assertRegex(self.run_command("pack", self.model, "--ops", self.model, status=1), "cannot load .*gelu.onnx")
        with self.assertRaisesRegex(tenon.Error, "the model needs library demo"):
            self.run_command("compile", self.model, "--ops", self.library, "-o", self.artifact)
            tenon.graph.load(self.artifact)


class Hashed(list):
    """Results of another process, which are compared by their hashes."""

    @classmethod
    def of(cls, items):
        return cls(items) if isinstance(items, list) else items

    def __eq__(self, other):
        return list(self) == [(dtype, shape, hashlib.sha256(data).hexdigest()) for dtype, shape, data in other]


if __name__ == "__main__":
    totals.main()
