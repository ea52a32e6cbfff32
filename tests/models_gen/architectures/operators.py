"""An operator without a function of torch: the suppression of overlapping boxes, for both exporters."""
import onnx
import torch
from onnxscript import opset18


@torch.library.custom_op("generated::suppress", mutates_args=())
def suppress(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Stands for NonMaxSuppression while a model is exported: [chosen, 3] of batch, class and box.  The exporter needs shapes only."""
    return torch.zeros(1, 3, dtype=torch.int64)


@suppress.register_fake
def _(boxes, scores):
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), 3, dtype=torch.int64)


LIMITS = (5, 0.5, 0.2)  # boxes of a class, overlap, score


def register_script():
    """Tells the older exporter how to write the operator."""
    def write(g, boxes, scores):
        return g.op("NonMaxSuppression", boxes, scores, *[g.op("Constant", value_t=torch.tensor([limit])) for limit in LIMITS])
    torch.onnx.register_custom_op_symbolic("generated::suppress", write, 18)


def dynamo_table():
    """What the newer exporter needs to know."""
    def constant(limit):
        dtype = onnx.TensorProto.INT64 if isinstance(limit, int) else onnx.TensorProto.FLOAT
        return opset18.Constant(value=onnx.helper.make_tensor("", dtype, [1], [limit]))

    def write(boxes, scores):
        return opset18.NonMaxSuppression(boxes, scores, *map(constant, LIMITS))
    return {torch.ops.generated.suppress.default: write}
