"""Puts the four operators of ../micro/blocks.c, or built-in ones that compute the same, into a model of the zoo: behind each normalisation
of a transformer, and behind each residual block of a convolutional network. bench/regions.py and tests/acceptance/regions_test.py use it."""
import numpy as np
import onnx
from onnx import helper, numpy_helper


def places(graph):
    """The nodes behind whose results the operators are put."""
    makers = {name: node for node in graph.node for name in node.output}
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        maker = makers.get(node.input[0]) if node.input else None
        ends_residual = node.op_type == "Relu" and maker is not None and maker.op_type == "Add"
        if (node.op_type == "LayerNormalization" or ends_residual) and node.output[0] not in outputs:
            yield node


class Block:
    """What is put in one place: affine, gate, centre and rms, and the sum with what they read."""

    def __init__(self, graph, name, width, is_library):
        self.graph, self.name, self.is_library, self.nodes = graph, name, is_library, []
        self.gain = self.constant("gain", np.linspace(0.5, 1.5, width, dtype=np.float32))

    def constant(self, name, value):
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), f"{self.name}/{name}"))
        return f"{self.name}/{name}"

    def add(self, op, *inputs, count=1, **attributes):
        domain, _, kind = op.rpartition(".")
        names = [f"{self.name}/{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"{self.name}/{len(self.nodes)}", domain=domain, **attributes))
        return names[0]

    def affine(self, x):
        if self.is_library:
            return self.add("blocks.affine", x, scale=0.5, shift=0.25)
        return self.add("Add", self.add("Mul", x, self.constant("scale", np.float32(0.5))), self.constant("shift", np.float32(0.25)))

    def gate(self, x, by):
        return self.add("blocks.gate", x, by) if self.is_library else self.add("Mul", x, self.add("Relu", by))

    def centre(self, x):
        return self.add("blocks.centre", x, count=2) if self.is_library else self.add("Sub", x, self.add("ReduceMean", x, axes=[-1]))

    def rms(self, x):
        if self.is_library:
            return self.add("blocks.rms", x, self.gain)
        return self.add("SimplifiedLayerNormalization", x, self.gain, axis=-1, epsilon=1e-5)

    def build(self, x):
        return self.add("Add", self.rms(self.centre(self.gate(self.affine(x), x))), x)


def put_blocks(source, target, is_library):
    """Writes the model with the operators. Returns how often they were put in."""
    model = onnx.load(source)
    shapes = {value.name: value.type.tensor_type.shape.dim for value in onnx.shape_inference.infer_shapes(model).graph.value_info}
    chosen = {node.output[0]: number for number, node in enumerate(places(model.graph))}
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        name = node.output[0]
        if name not in chosen:
            continue
        block = Block(model.graph, f"block/{chosen[name]}", shapes[name][-1].dim_value, is_library)
        node.output[0] = f"{name}/before"
        block.build(node.output[0])
        block.nodes[-1].output[0] = name
        nodes += block.nodes
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("blocks", 1))
    onnx.save(model, target)
    return len(chosen)
