// A library in C++, as its authors wrote them before version 16: kernels are objects, failures are
// exceptions, and the operators are static objects of a class that inherits OrtCustomOp.
#include "api.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static const OrtApi *ort;

static void check(OrtStatus *status) {
  if (!status) return;
  const std::string message = ort->GetErrorMessage(status);
  ort->ReleaseStatus(status);
  throw std::runtime_error(message);
}

struct Kernel {
  explicit Kernel(const OrtKernelInfo *info) {
    size_t size = 0;
    check(ort->KernelInfoGetAttribute_string(info, "separator", nullptr, &size));
    separator.resize(size);
    check(ort->KernelInfoGetAttribute_string(info, "separator", &separator[0], &size));
    separator.resize(size - 1);
  }

  void compute(OrtKernelContext *context) const {
    const OrtValue *input;
    OrtValue *output;
    OrtTensorTypeAndShapeInfo *info;
    size_t count, size;
    check(ort->KernelContext_GetInput(context, 0, &input));
    check(ort->GetTensorTypeAndShape(input, &info));
    check(ort->GetTensorShapeElementCount(info, &count));
    ort->ReleaseTensorTypeAndShapeInfo(info);
    check(ort->GetStringTensorDataLength(input, &size));
    std::vector<char> text(size + 1);
    std::vector<size_t> offsets(count + 1, size);
    check(ort->GetStringTensorContent(input, text.data(), size, offsets.data(), count));
    if (count == 0) throw std::invalid_argument("there is nothing to join");
    std::string joined;
    for (size_t i = 0; i < count; i++) {
      if (i) joined += separator;
      joined.append(text.data() + offsets[i], offsets[i + 1] - offsets[i]);
    }
    check(ort->KernelContext_GetOutput(context, 0, nullptr, 0, &output));
    const char *items[] = {joined.c_str()};
    check(ort->FillStringTensor(output, items, 1));
  }

  std::string separator;
};

struct Join : OrtCustomOp {
  Join() : OrtCustomOp() {
    version = API;
    OrtCustomOp::CreateKernel = [](const OrtCustomOp *, const OrtApi *,
                                   const OrtKernelInfo *info) -> void * {
      return new Kernel(info);
    };
    OrtCustomOp::GetName = [](const OrtCustomOp *) { return "Join"; };
    OrtCustomOp::GetExecutionProviderType = [](const OrtCustomOp *) -> const char * {
      return "CPUExecutionProvider";
    };
    OrtCustomOp::GetInputType = [](const OrtCustomOp *, size_t) {
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    };
    OrtCustomOp::GetInputTypeCount = [](const OrtCustomOp *) -> size_t { return 1; };
    OrtCustomOp::GetOutputType = [](const OrtCustomOp *, size_t) {
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    };
    OrtCustomOp::GetOutputTypeCount = [](const OrtCustomOp *) -> size_t { return 1; };
    OrtCustomOp::KernelCompute = [](void *kernel, OrtKernelContext *context) {
      static_cast<Kernel *>(kernel)->compute(context);
    };
    OrtCustomOp::KernelDestroy = [](void *kernel) { delete static_cast<Kernel *>(kernel); };
    OrtCustomOp::GetInputCharacteristic = [](const OrtCustomOp *, size_t) {
      return INPUT_OUTPUT_REQUIRED;
    };
    OrtCustomOp::GetOutputCharacteristic = [](const OrtCustomOp *, size_t) {
      return INPUT_OUTPUT_REQUIRED;
    };
  }
};

struct Domain {
  ~Domain() {
    if (domain) ort->ReleaseCustomOpDomain(domain);
  }
  OrtCustomOpDomain *domain = nullptr;
};

extern "C" __attribute__((visibility("default"))) OrtStatus *
RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  static const Join join;
  static Domain kept;
  ort = base->GetApi(API);
  if (!kept.domain) {
    if (OrtStatus *status = ort->CreateCustomOpDomain("test.plain", &kept.domain)) return status;
    if (OrtStatus *status = ort->CustomOpDomain_Add(kept.domain, &join)) return status;
  }
  return ort->AddCustomOpDomain(options, kept.domain);
}
