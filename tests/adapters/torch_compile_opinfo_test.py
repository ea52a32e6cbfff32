"""PyTorch's OpInfo samples through the backend of torch.compile: each operator, forward and backward, against eager PyTorch.

    torch_compile_opinfo_test.py [--op NAME] [--exact] [--dtype DTYPE] [--samples N] [--all] [--list] [--jobs N] [--inductor]

Each sample is traced by AOTAutograd and given to the backend's compile_graph, without Dynamo, so that thousands of samples
take minutes; every fiftieth sample goes through torch.compile itself.  A sample counts where AOTAutograd traces it and the
traced graph, run by PyTorch, gives the results of eager PyTorch: what no compiler can compile is skipped.  --inductor also
compiles each sample by inductor, which takes seconds for each, and counts separately what inductor passes.

OPINFO_SHARE=2/25 takes every 25th operator, from the third on; OPINFO_SHARE=commit (the default) takes the share of this
commit, --all every operator.  OPINFO_LOG=FILE keeps what each operator did, one line of JSON each.  Worker processes run the
operators one after the other, so that a crash is the finding of one operator.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import threading
import time
import unittest
import zlib

import totals

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
SHARES = 25
WHOLE_SHARE = 50  # one of so many samples goes through torch.compile
FLOOR = 85  # percent of all samples of which no node may be handed back to PyTorch
MAIN_DTYPES, MORE_DTYPES = ("float32", "int64", "bool"), ("float64", "float16", "bfloat16")
# Operators whose results are memory that nobody wrote: dtypes and shapes are compared.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
# Operators whose second result is the position of the first; of equal elements any may be the one.
POSITIONS = ("topk", "sort", "kthvalue", "median", "nanmedian", "mode")
# Operators whose results are sums of many products: the order of the additions decides about the last digits, so that
# an error counts against the greatest element of a result.
SUMS = ("fft.", "stft", "istft", "nn.functional.conv2d", "nn.functional.conv3d",
        "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d", "nn.functional.scaled_dot_product_attention")
# Operators whose softmax makes relative errors of the rounding of products of thousands.
AMPLIFIED = ("nn.functional.multi_head_attention_forward",)
# The operators of ATen that PyTorch runs, and the reasons for single calls of others.  Nothing else may be handed back.
HANDED_BACK = {
    "linear algebra": """_linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky cholesky_inverse cholesky_solve geqrf
        linalg_cholesky_ex linalg_eig linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor_ex
        linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular lu_unpack ormqr triangular_solve with_effects""",
    "special functions": """igamma igammac special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w
        special_hermite_polynomial_h special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p
        special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
        special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
        special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_zeta""",
    "histograms": "_histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors histc histogram",
    "segments and bags": "_embedding_bag _embedding_bag_backward _embedding_bag_forward_only _embedding_bag_per_sample_weights_backward "
                         "_segment_reduce_backward embedding_renorm segment_reduce",
    "others": "_efficientzerotensor _linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction _to_sparse div "
              "fractional_max_pool2d fractional_max_pool3d frexp gcd hash_tensor repeat_interleave resize rrelu_with_noise_backward"}
REASONS = ("PyTorch draws the random numbers", "Tenon has no tensors of torch.complex32", "it reads a tensor of torch.complex32",
           "it reads a tensor of torch.complex64", "the mean of integers", "a view of memory that is not row-major", "an index that is a mask",
           "the padding is a symbol or negative")
KINDS = ("whole", "back", "wrong", "failed", "skipped")
PASSED_BY_INDUCTOR, ALSO_WHOLE = "inductor passes", "inductor passes and Tenon runs whole"


# ---- one sample, in a worker ----

class Skipped(Exception):
    """A sample that says nothing about the backend; the text says why."""


class Sample:
    """A call of an operator as a function of its tensors."""

    def __init__(self, op, sample, torch):
        self.torch, self.op = torch, op
        leaves, self.spec = torch.utils._pytree.tree_flatten((sample.input, list(sample.args), dict(sample.kwargs)))
        self.leaves, self.at = leaves, [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i] for i in self.at]
        if any(t.layout != torch.strided for t in self.tensors):
            raise Skipped("a sparse tensor")

    def __call__(self, *tensors):
        return self.called(self.leaves, tensors)

    def called_in_float64(self, *tensors):
        """The call with float64 in the place of the floating dtypes that it names."""
        def widened(leaf):
            return self.torch.float64 if isinstance(leaf, self.torch.dtype) and leaf.is_floating_point else leaf
        return self.called(map(widened, self.leaves), tensors)

    def called(self, leaves, tensors):
        leaves = list(leaves)
        for i, tensor in zip(self.at, tensors):
            leaves[i] = tensor
        first, args, kwargs = self.torch.utils._pytree.tree_unflatten(leaves, self.spec)
        found = self.torch.utils._pytree.tree_leaves(self.op(first, *args, **kwargs))
        return [t for t in found if isinstance(t, self.torch.Tensor)]

    def fresh(self, change=lambda t: t):
        """The tensors once more, in memory of their own, since a call may write to them."""
        torch, made = self.torch, []
        for t in self.tensors:
            plain = t.detach().resolve_conj().resolve_neg()
            whole = torch.empty(0, dtype=t.dtype).set_(plain.untyped_storage()).clone()
            copy = change(whole.as_strided(t.shape, plain.stride(), plain.storage_offset()))
            made.append(copy.requires_grad_(t.requires_grad) if copy.is_floating_point() or copy.is_complex() else copy)
        return made


def gradients(torch, results, inputs):
    """The gradients of the inputs, for gradients of the results that differ from element to element."""
    outs = [t for t in results if t.requires_grad]
    ins = [t for t in inputs if t.requires_grad]
    if not outs or not ins:
        raise Skipped("nothing is differentiable")
    starts = [torch.linspace(-1, 1, t.numel(), dtype=torch.float64).reshape(t.shape).to(t.dtype) for t in outs]
    return list(torch.autograd.grad(outs, ins, starts, allow_unused=True))


def computed(torch, function, inputs, differentiate):
    torch.manual_seed(42)  # as the functions of OpInfo that draw random numbers do
    results = function(*inputs)
    return results, gradients(torch, results, inputs) if differentiate else []


def lead_to(torch, x, positions, values):
    """Whether positions along some axis of x lead to these values."""
    if x.dim() == 0:
        return not positions.any()
    for axis in range(x.dim()):
        at, wanted = (positions, values) if positions.dim() == x.dim() else (positions.unsqueeze(axis), values.unsqueeze(axis))
        fits = all(a == b for i, (a, b) in enumerate(zip(at.shape, x.shape)) if i != axis)
        if at.dim() == x.dim() and fits and (at.numel() == 0 or int(at.max()) < x.shape[axis]):
            if torch.equal(x.gather(axis, at).nan_to_num(1e9), wanted.nan_to_num(1e9)):
                return True
    return False


def lead_to_the_same(torch, x, positions, others):
    return any(torch.equal(x.gather(axis, positions), x.gather(axis, others)) for axis in range(x.dim()))


def is_as_exact(torch, name, found, eager, precise):
    """Whether a result is close to the one in float64, or no further from it than twice what eager PyTorch is."""
    options = {}
    if name.startswith(SUMS) and found.dtype in (torch.float32, torch.complex64) and found.numel():
        options = {"rtol": 1.3e-6, "atol": max(1e-5, 1.3e-6 * float(precise.abs().max()))}
    if name in AMPLIFIED and found.dtype == torch.float32:
        options = {"rtol": 2e-4, "atol": 1e-5}
    try:
        torch.testing.assert_close(found, precise.to(found.dtype), equal_nan=True, check_stride=False, **options)
        return True
    except AssertionError:
        finite = precise.isfinite()
        if found.is_complex() or not torch.equal(finite, found.isfinite()) or not torch.equal(precise[~finite].to(found.dtype).nan_to_num(), found[~finite].nan_to_num()):
            return False
        ours, theirs = ((t[finite].double() - precise[finite]).abs() for t in (found, eager))
        return finite.any() and bool(ours.max() <= 2 * theirs.max())


def same(torch, sample, found, expected, precise):
    """Returns "" or what differs.  precise: a function for the results in float64, which decide where roundings differ."""
    for kind, a_list, e_list in zip(("result", "gradient"), found, expected):
        if len(a_list) != len(e_list):
            return f"{len(a_list)} {kind}s, expected {len(e_list)}"
    name, flat_found, flat_expected = sample.op.name, found[0] + found[1], expected[0] + expected[1]
    better = None
    for i, (a, e) in enumerate(zip(flat_found, flat_expected)):
        if a is None or e is None:
            if (a if e is None else e) is not None and bool((a if e is None else e).detach().ne(0).any()):
                return f"result {i}: one gradient is missing"
            continue
        a, e = a.detach(), e.detach()
        if a.dtype != e.dtype or a.shape != e.shape:
            return f"result {i}: {a.dtype} {list(a.shape)}, expected {e.dtype} {list(e.shape)}"
        if name in UNDEFINED:
            continue
        try:
            torch.testing.assert_close(a, e, equal_nan=True, check_stride=False)
        except AssertionError as error:
            if name == "argsort" and lead_to_the_same(torch, sample.tensors[0].detach(), a, e):
                continue
            if name in POSITIONS and i == 1 and lead_to(torch, sample.tensors[0].detach(), a, flat_found[0].detach()):
                continue
            if not (a.is_floating_point() or a.is_complex()):
                return f"result {i}: {error}"
            if better is None:
                better = precise()
            if i >= len(better) or not is_as_exact(torch, name, a, e, better[i].detach()):
                return f"result {i}: {error}"
    return ""


class Worker:
    def __init__(self):
        sys.path[:0] = [os.path.join(BUILD, "python")]
        import warnings

        import torch
        import torch._functorch.config
        from torch._functorch.aot_autograd import aot_function

        from tenon.torch import compiler
        warnings.simplefilter("ignore")
        self.torch, self.compiler, self.aot_function = torch, compiler, aot_function
        self.explanation = compiler.Explanation()
        from torch.testing._internal.common_methods_invocations import op_db
        self.operators = {op.full_name: op for op in op_db}
        torch._dynamo.config.suppress_errors = False

    def traced(self, sample, compile_graph, decompositions):
        return self.aot_function(sample, fw_compiler=compile_graph, bw_compiler=compile_graph, inference_compiler=compile_graph,
                                 decompositions=decompositions)

    def check(self, op, given, differentiate, through_dynamo):
        """Returns (kind, text): the kind is one of KINDS."""
        torch = self.torch
        try:
            sample = Sample(op, given, torch)
            expected = computed(torch, sample, sample.fresh(), differentiate)
        except Skipped as reason:
            return "skipped", str(reason)
        except Exception as error:
            return "skipped", f"eager PyTorch refuses it: {error}"

        def precise():
            def up(t):
                return t.double() if t.is_floating_point() and t.dtype != torch.float64 else t
            torch.set_default_dtype(torch.float64)
            try:
                results = computed(torch, sample.called_in_float64, sample.fresh(up), differentiate)
            except Exception:
                return []
            finally:
                torch.set_default_dtype(torch.float32)
            return results[0] + [g for g in results[1]]
        self.explanation.graphs.clear()
        try:
            if through_dynamo:
                torch._dynamo.reset()
                function = torch.compile(sample, backend="tenon")
            else:
                function = self.traced(sample, self.compiler.graphs.compile_graph, self.compiler.decompositions())
            with self.compiler.recording(self.explanation):
                found = computed(torch, function, sample.fresh(), differentiate)
            differs = same(torch, sample, found, expected, precise)
            if differs:  # the first call compiles, and may draw random numbers
                differs = same(torch, sample, computed(torch, function, sample.fresh(), differentiate), expected, precise)
            kind = "wrong"
        except Skipped as reason:
            return "skipped", str(reason)
        except Exception as error:
            kind, differs = "failed", f"{type(error).__name__}: {error}"
        refused = {item.operator: item.reason for graph in self.explanation.graphs for item in graph.handed_back}
        if differs:
            try:
                function = self.traced(sample, lambda module, inputs: module.forward, {})
                computed(torch, function, sample.fresh(), differentiate)
                plain = computed(torch, function, sample.fresh(), differentiate)
            except Exception as error:
                return "skipped", f"AOTAutograd refuses it: {error}"
            plainly = same(torch, sample, plain, expected, precise)
            if plainly:
                return "skipped", f"the traced graph differs from eager PyTorch: {plainly}"
        if differs:
            return kind, differs
        return ("back", refused) if refused else ("whole", "")

    def inductor_passes(self, op, given, differentiate):
        torch, sample = self.torch, Sample(op, given, self.torch)
        expected = computed(torch, sample, sample.fresh(), differentiate)
        torch._dynamo.reset()
        try:
            found = computed(torch, torch.compile(sample, backend="inductor"), sample.fresh(), differentiate)
        except Exception:
            return False
        return not same(torch, sample, found, expected, list)

    def run(self, name, dtypes, limit, is_share_of_dynamo, inductor):
        torch, op = self.torch, self.operators[name]
        counts, findings, backs, number = collections.Counter(), [], collections.Counter(), 0
        for dtype in dtypes:
            dtype = getattr(torch, dtype)
            if dtype not in op.dtypes:
                continue
            ways = (False, True) if dtype == torch.float32 and op.supports_autograd else (False,)
            for differentiate in ways:
                try:
                    samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiate))
                except Exception as error:
                    findings.append(("skipped", f"{dtype} samples: {error}"[:300]))
                    continue
                step = max(1, -(-len(samples) // limit)) if limit else 1
                first = zlib.crc32(name.encode()) % step if inductor else 0  # any samples, not the simplest
                for i, sample in list(enumerate(samples))[first::step]:
                    number += 1
                    kind, text = self.check(op, sample, differentiate, is_share_of_dynamo(number))
                    counts[kind] += 1
                    if inductor and kind != "skipped" and self.inductor_passes(op, sample, differentiate):
                        counts[PASSED_BY_INDUCTOR] += 1
                        counts[ALSO_WHOLE] += kind == "whole"
                    if kind == "back":
                        backs.update({f"{node}: {reason}": 1 for node, reason in text.items()})
                    elif kind != "whole":
                        findings.append((kind, f"{str(dtype)[6:]} {'backward ' if differentiate else ''}sample {i}: {text}"[:600]))
        return {"name": name, "counts": counts, "findings": findings, "backs": backs}


def worker():
    made = Worker()
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        offset = zlib.crc32(asked["name"].encode()) + asked["commit"]
        report = made.run(asked["name"], asked["dtypes"], asked["samples"], lambda n, o=offset: (n + o) % WHOLE_SHARE == 0, asked.get("inductor"))
        print("report " + json.dumps(report), flush=True)


# ---- the operators, shared among workers ----

def commit_number():
    found = subprocess.run(["git", "-C", ROOT, "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return int(found or 0)


class Crew:
    """Worker processes that take operators from one list."""

    def __init__(self, jobs, asked):
        self.asked, self.reports, self.lock = list(asked), [], threading.Lock()
        self.log = open(os.environ.get("OPINFO_LOG", os.devnull), "w", encoding="utf-8")
        threads = [threading.Thread(target=self._work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.log.close()

    def _start(self):
        command = [sys.executable, os.path.abspath(__file__), "--worker"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        errors = collections.deque(maxlen=12)
        threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True).start()
        process.errors = errors
        if process.stdout.readline().strip() != "ready":
            process.wait()
            raise AssertionError("a worker does not start: " + "".join(errors))
        return process

    def _work(self):
        process = None
        while True:
            with self.lock:
                if not self.asked:
                    break
                asked = self.asked.pop(0)
            process = process or self._start()
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            while line and not line.startswith("report "):
                line = process.stdout.readline()
            if line:
                report = json.loads(line.removeprefix("report "))
            else:
                text = f"the process ended with {process.wait()}: {''.join(process.errors)[-400:]}"
                report = {"name": asked["name"], "counts": {"failed": 1}, "findings": [("failed", text)], "backs": {}}
                process = None
            with self.lock:
                self.reports.append(report)
                self.log.write(json.dumps(report) + "\n")
                self.log.flush()
        if process:
            process.stdin.close()
            process.wait()


def names_of_share(share):
    from torch.testing._internal.common_methods_invocations import op_db
    names = sorted({op.full_name for op in op_db})
    if not share:
        return names
    if share == "commit":
        share = f"{commit_number() % SHARES}/{SHARES}"
        print(f"skipped: of the {len(names)} operators of OpInfo, this commit tests the share {share}")
    index, count = map(int, share.split("/"))
    return names[index % count::count]


def dtypes_of(names, commit):
    """The main dtypes for every operator, and one more for each third operator in turn."""
    return [(name, [*MAIN_DTYPES, *(MORE_DTYPES[(i + commit) // 3 % 3:][:1] if (i + commit) % 3 == 0 else [])]) for i, name in enumerate(names)]


def counts_of(reports):
    counts = collections.Counter()
    for report in reports:
        counts.update(report["counts"])
    return counts


def percent_whole(counts):
    return 100 * counts["whole"] / max(1, sum(counts[k] for k in KINDS[:4]))


def table(reports, every=False):
    lines = [f"{'operator':44}" + "".join(f"{kind:>9}" for kind in KINDS)]
    for report in sorted(reports, key=lambda r: r["name"]):
        counts = collections.Counter(report["counts"])
        if every or counts["back"] or counts["wrong"] or counts["failed"]:
            lines.append(f"{report['name']:44}" + "".join(f"{counts[kind]:9}" for kind in KINDS))
            lines += [f"    {number} x {what}"[:240] for what, number in sorted(report["backs"].items(), key=lambda item: -item[1])]
        lines += [f"    {kind}: {text}" for kind, text in report["findings"] if kind in ("wrong", "failed")][:4]
    reasons = collections.Counter()
    for report in reports:
        reasons.update({what.split(":")[0]: number for what, number in report["backs"].items()})
    lines.append("handed back: " + ", ".join(f"{node} {number}" for node, number in reasons.most_common(60)))
    counts = counts_of(reports)
    lines.append(f"{len(reports)} operators: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS) + f"; {percent_whole(counts):.1f} % whole")
    return "\n".join(lines)


def unexpected(reports):
    """What was handed back although Tenon lowers it elsewhere."""
    known = {name for names in HANDED_BACK.values() for name in names.split()}
    found = []
    for report in reports:
        for what in report["backs"]:
            operator, reason = what.split(": ", 1)
            name = operator.split(".")[1] if "." in operator else operator
            if name not in known and not reason.startswith(REASONS):
                found.append(f"{report['name']}: {what}")
    return found


class Samples(unittest.TestCase):
    def test_samples_of_operators_run_whole_and_give_the_results_of_eager_pytorch(self):
        commit = commit_number()
        asked = [{"name": n, "dtypes": d, "samples": 24, "commit": commit} for n, d in dtypes_of(names_of_share(os.environ.get("OPINFO_SHARE", "commit")), commit)]
        reports = Crew(int(os.environ.get("OPINFO_JOBS", "2")), asked).reports
        print(table(reports))
        counts = counts_of(reports)
        self.assertEqual((counts["wrong"], counts["failed"]), (0, 0))
        self.assertEqual(unexpected(reports), [])
        if len(reports) > 600:  # single shares differ: half of some are operators of linear algebra
            self.assertGreaterEqual(percent_whole(counts), FLOOR)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--op", help="only operators whose names contain this")
    parser.add_argument("--exact", action="store_true", help="only the operator of this name")
    parser.add_argument("--dtype", help="only this dtype")
    parser.add_argument("--samples", type=int, default=0, help="at most so many samples of each dtype (0: all)")
    parser.add_argument("--all", action="store_true", help="all operators and all dtypes")
    parser.add_argument("--list", action="store_true", help="print the operators without findings as well")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--inductor", action="store_true", help="count separately the samples that inductor passes")
    options = parser.parse_args()
    commit = commit_number()
    names = names_of_share("" if options.op is not None or options.all else os.environ.get("OPINFO_SHARE", "commit"))
    if options.op:
        names = [n for n in names if (n == options.op if options.exact else options.op in n)]
    dtypes = [options.dtype] if options.dtype else [*MAIN_DTYPES, *(MORE_DTYPES if options.all else ())]
    start = time.monotonic()
    asked = [{"name": n, "dtypes": dtypes, "samples": options.samples, "commit": commit, "inductor": options.inductor} for n in names]
    reports = Crew(options.jobs, asked).reports
    print(table(reports, options.list))
    counts = counts_of(reports)
    if options.inductor:
        passed, whole = counts[PASSED_BY_INDUCTOR], counts[ALSO_WHOLE]
        print(f"inductor passes {passed} of {sum(counts[k] for k in KINDS[:4])}; Tenon runs {whole} of these whole: {100 * whole / max(1, passed):.1f} %")
    print("\n".join(unexpected(reports)))
    print(f"in {time.monotonic() - start:.0f} s")
    sys.exit(counts["wrong"] + counts["failed"] > 0 or bool(unexpected(reports)))


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker()
    elif len(sys.argv) > 1:
        main()
    else:
        totals.main()
