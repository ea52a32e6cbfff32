// The operator of examples/01_gelu, registered with TensorFlow by hand, for bench/tensorflow.py.
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>

extern "C" void hand_gelu(const float *x, float *y, long count); // bench/tensorflow_hand.c

REGISTER_OP("HandGelu")
    .Input("x: T")
    .Output("out: T")
    .Attr("T: {half, bfloat16, float}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

namespace {
class HandGelu : public tensorflow::OpKernel {
public:
  explicit HandGelu(tensorflow::OpKernelConstruction *construction) : OpKernel(construction) {}
  void Compute(tensorflow::OpKernelContext *context) override {
    const tensorflow::Tensor &x = context->input(0);
    tensorflow::Tensor *y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    hand_gelu(x.flat<float>().data(), y->flat<float>().data(), x.NumElements());
  }
};
} // namespace

REGISTER_KERNEL_BUILDER(Name("HandGelu").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
                        HandGelu);
