"""PyTorch's OpInfo samples on a Tenon device: each operator forward and backward on `sim`, with the fallback, equals the CPU.

    torch_opinfo_test.py [PATTERN]      only operators whose names contain PATTERN

OPINFO_SHARE=2/25 takes every 25th operator, from the third on; OPINFO_SHARE=commit takes the share of this commit.
OPINFO_LOG=FILE keeps what each operator did, one line of JSON each.  A worker process runs the operators one after the
other, so that a crash is the finding of one operator.
"""
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
DEVICE = os.environ.get("OPINFO_DEVICE", "sim")
SHARES = 25
# Operators whose results are memory that nobody wrote: dtypes, shapes and strides are compared.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
# Operators that take a tensor on the CPU beside those on the device.
FIRST_ONLY = ("tensor_split",)
# The samples that may fail, and why.
SPARSE = "PyTorch has no sparse tensors on devices of other packages: the error names the missing operator"
ROUNDING = "other rounding: the kernel of the device adds the same products in another order than the CPU's"
KNOWN = {"sparse.mm.reduce": SPARSE, "sparse.sampled_addmm": SPARSE, "to_sparse": SPARSE, "cov": ROUNDING, "nn.functional.conv3d": ROUNDING,
         "nn.functional.conv_transpose3d": ROUNDING, "nn.functional.multi_head_attention_forward": ROUNDING,
         "nn.functional.scaled_dot_product_attention": ROUNDING}


def operators():
    from torch.testing._internal.common_methods_invocations import op_db
    return {f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}": op for op in op_db}


def dtypes_of(op, torch):
    found = [torch.float32] if torch.float32 in op.dtypes else []
    integers = [d for d in (torch.int64, torch.int32, torch.uint8, torch.bool) if d in op.dtypes]
    return found + integers[:1]


def moved(value, device, torch):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return value.to(device)
        # All of its storage, since a sample may be a view of a part.
        whole = torch.empty(0, dtype=value.dtype).set_(value.detach().resolve_conj().resolve_neg().untyped_storage())
        there = whole.to(device).as_strided(value.shape, value.stride(), value.storage_offset())
        return there.requires_grad_(value.requires_grad) if value.requires_grad else there
    if isinstance(value, torch.Generator):
        made = torch.Generator(device)
        made.set_state(value.get_state())
        return made
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, dict):
        return {k: moved(v, device, torch) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(v, device, torch) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v, device, torch) for v in value)
    if isinstance(value, str) and value == "cpu":
        return device
    return value


def flat(value, torch):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v, torch)]
    return []


def gradients(results, inputs, torch, keep=False):
    outs = [t for t in results if t.requires_grad and t.numel()]
    ins = [t for t in inputs if t.requires_grad]
    if not outs or not ins:
        return []
    starts = [torch.ones_like(t) for t in outs]
    return list(torch.autograd.grad(outs, ins, starts, allow_unused=True, retain_graph=keep))


def check_sample(op, sample, torch, differentiate):
    """Returns "" or what differs."""
    torch.manual_seed(0)
    try:
        expected = op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        return f"skip: the CPU refuses it: {str(error)[:80]}"
    rest = (sample.args, sample.kwargs)
    there = [moved(sample.input, DEVICE, torch), *(rest if op.name in FIRST_ONLY else (moved(v, DEVICE, torch) for v in rest))]
    torch.manual_seed(0)
    found = op(there[0], *there[1], **there[2])
    pairs = list(zip(flat(expected, torch), flat(found, torch), strict=True))
    if differentiate:
        try:
            gradients(flat(expected, torch), flat([sample.input, sample.args, sample.kwargs], torch), torch, keep=True)
        except Exception as error:
            return f"skip: the CPU has no gradient: {str(error)[:80]}"
        grads = [gradients(flat(r, torch), flat(i, torch), torch) for r, i in ((expected, [sample.input, sample.args, sample.kwargs]), (found, there))]
        pairs += [(a, b) for a, b in zip(*grads, strict=True)]
    for i, (a, b) in enumerate(pairs):
        if a is None or b is None:
            if (a is None) != (b is None):
                return f"result {i}: one gradient is missing"
            continue
        if b.device.type != DEVICE and a.device.type == b.device.type and a.numel() > 1 and flat(there, torch):
            return f"result {i} is on {b.device}"
        if op.name in UNDEFINED:
            if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
                return f"result {i}: {b.dtype} {b.shape} {b.stride()}, expected {a.dtype} {a.shape} {a.stride()}"
            continue
        torch.testing.assert_close(b.detach().cpu(), a.detach(), equal_nan=True, check_stride=False, rtol=1e-4 if differentiate else None,
                                   atol=1e-4 if differentiate else None)
    return ""


def worker():
    sys.path[:0] = [os.path.join(BUILD, "python")]
    import warnings

    import torch

    import tenon.torch.device as td
    warnings.simplefilter("ignore")
    td.enable(DEVICE)
    known = operators()
    print("ready", flush=True)
    for line in sys.stdin:
        name, failures, passed, skipped = line.strip(), [], 0, 0
        op = known[name]
        for dtype in dtypes_of(op, torch):
            for differentiate in (False, True) if dtype.is_floating_point and op.supports_autograd else (False,):
                try:
                    samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiate))
                except Exception as error:
                    failures.append(f"{dtype} samples: {error}"[:300])
                    continue
                for i, sample in enumerate(samples):
                    try:
                        why = check_sample(op, sample, torch, differentiate)
                    except Exception as error:
                        why = f"{type(error).__name__}: {error}"
                    if why.startswith("skip"):
                        skipped += 1
                    elif why:
                        failures.append(f"{dtype} {'gradient ' if differentiate else ''}sample {i}: {why}"[:400])
                    else:
                        passed += 1
        print(json.dumps({"name": name, "passed": passed, "skipped": skipped, "failures": failures}), flush=True)


def main():
    sys.path[:0] = [os.path.join(BUILD, "python")]
    names = sorted(operators())
    if len(sys.argv) > 1:
        names = [n for n in names if sys.argv[1] in n]
    if share := os.environ.get("OPINFO_SHARE"):
        if share == "commit":
            commits = subprocess.run(["git", "-C", ROOT, "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
            share = f"{int(commits or 0) % SHARES}/{SHARES}"
            print(f"skipped: of the {len(names)} operators of OpInfo, this commit tests the share {share} (make torch-device tests all)")
        index, count = map(int, share.split("/"))
        names = names[index % count::count]
    process, done, start = None, [], time.monotonic()
    log = open(os.environ.get("OPINFO_LOG", os.devnull), "w", encoding="utf-8")
    for name in names:
        if process is None or process.poll() is not None:
            process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdout.readline().strip() == "ready"
        process.stdin.write(name + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if line:
            done.append(json.loads(line))
        else:
            done.append({"name": name, "passed": 0, "skipped": 0, "failures": [f"the process ended with {process.wait()}"]})
        log.write(json.dumps(done[-1]) + "\n")
        log.flush()
    if process:
        process.stdin.close()
        process.wait()
    passed, known, failed = sum(d["passed"] for d in done), 0, 0
    for d in done:
        if d["failures"]:
            why = KNOWN.get(d["name"])
            known, failed = (known + len(d["failures"]), failed) if why else (known, failed + len(d["failures"]))
            print(f"{d['name']}: {d['passed']} passed, {len(d['failures'])} differ: {why or d['failures'][0]}")
    print(f"{len(done)} operators: {100 * passed / max(1, passed + known + failed):.1f} % of the samples that the CPU accepts, in {time.monotonic() - start:.0f} s")
    print(f"{passed} passed, {failed} failed, {known} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    worker() if "--worker" in sys.argv else main()
