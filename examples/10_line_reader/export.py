#!/usr/bin/env python3
"""Makes a model for deployment from the weights that train.py wrote:

  PYTHONPATH=build/python .venv-zoo/bin/python examples/10_line_reader/export.py build/reader.pt -o examples/10_line_reader/reader.onnx

Its input is a picture, its outputs are the text and the score of the text. The search is a node of the domain `reader`;
the program that runs the model loads the library with this operator."""
import argparse
import sys

import onnx_ir
import tenon.torch
import torch

import network
import render

def export(model, path):
    """Writes the Network as a model of a Reader."""
    program = torch.onnx.export(
        network.Reader(model).eval(),
        (torch.zeros(render.HEIGHT, 64, dtype=torch.uint8),),
        input_names=["picture"],
        output_names=["text", "score"],
        dynamic_shapes={"picture": {1: torch.export.Dim("width", min=2)}},
        custom_translation_table=tenon.torch.onnx_functions("reader"),
        dynamo=True,
        verbose=False,
    )
    program.model.graph.outputs[0].dtype = onnx_ir.DataType.STRING  # PyTorch has no strings
    for node in program.model.graph:
        node.metadata_props.clear()  # the source lines that made the node
    program.save(path)


def main():
    parser = argparse.ArgumentParser(description="Exports the line reader to ONNX.")
    parser.add_argument("weights", help="what train.py wrote")
    parser.add_argument("-o", "--output", required=True, help="an ONNX file")
    arguments = parser.parse_args()
    model = network.Network()
    model.load_state_dict(torch.load(arguments.weights))
    export(model, arguments.output)


if __name__ == "__main__":
    sys.exit(main())
