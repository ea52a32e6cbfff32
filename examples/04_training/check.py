"""Builds the program, trains in both ways, and compares the loss of each of 100 steps with PyTorch's; they may differ by 1e-9."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def train(program, how, record):
    """Trains, and returns the losses and their largest distance from PyTorch's, which is None without PyTorch."""
    out = subprocess.run([program, how, "100", record], check=True, capture_output=True, text=True).stdout
    with open(record) as file:
        losses = [float(line) for line in list(file)[8:]]
    assert len(losses) == 100 and "step 100 of 100" in out, out[-200:]
    assert losses[-1] < 0.7 * losses[0], (losses[0], losses[-1])
    python = os.path.join(ROOT, ".venv-zoo", "bin", "python")
    if not os.path.exists(python):
        return losses, None
    return losses, float(subprocess.run([python, os.path.join(HERE, "reference.py"), record], check=True, capture_output=True, text=True).stdout)


def main():
    build = os.path.dirname(os.path.abspath(sys.argv[1]))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        program, record = os.path.join(folder, "training"), os.path.join(folder, "record.txt")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I", os.path.join(ROOT, "include"), os.path.join(HERE, "training.c"), "-o", program,
                        "-L", build, "-ltenon", "-lm", f"-Wl,-rpath,{build}"], check=True)
        for how in "calls", "graph":
            losses, worst = train(program, how, record)
            if worst is None:
                print(f"{how}: loss {losses[0]:.4f} -> {losses[-1]:.4f}; PyTorch is not there to compare with (make test sets it up)")
                continue
            print(f"{how}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, at most {worst:.1e} from PyTorch's")
            failed |= worst > 1e-9
    return failed


if __name__ == "__main__":
    sys.exit(main())
