"""`python -m tenon.tensorflow MODEL NEW-MODEL`: converts a SavedModel or a .keras file to a file that `tenon run` runs."""
import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

import tenon

from . import convert, register


def main():
    parser = argparse.ArgumentParser(prog="python -m tenon.tensorflow", description="Converts a model of TensorFlow to a file that `tenon run` runs.")
    parser.add_argument("model", metavar="MODEL", help="the folder of a SavedModel, or a .keras file")
    parser.add_argument("path", metavar="NEW-MODEL", help="the file to write, such as model.onnx")
    parser.add_argument("--signature", help="the signature of a SavedModel (default: serving_default, or the only one)")
    parser.add_argument("--ops", action="append", default=[], metavar="LIB", help="load an operator library first; may be repeated")
    options = parser.parse_args()
    try:
        for path in options.ops:
            register(tenon.load(path))
        graph = convert(options.model, options.path, signature=options.signature)
    except (tf.errors.OpError, tenon.Error) as error:
        print(f"tenon.tensorflow: {getattr(error, 'message', error)}", file=sys.stderr)
        return 1
    print(f"{options.path}: {len(graph.nodes)} nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
