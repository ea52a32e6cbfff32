/* A program without Python: libtorch, libtenon_torch.so and a library of operators.  It runs a
 * TorchScript file and AOTInductor packages and prints what they give. Usage: torch_deploy
 * LIBRARY... -- FILE...; files end in .pt (TorchScript) or .pt2 (AOTInductor). */
#include <ATen/ops/from_blob.h>
#include <tenon/torch.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <malloc.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

static bool has_python() { /* is any part of Python in this process? */
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libpython") != std::string::npos ||
        line.find("libtorch_python") != std::string::npos)
      return true;
  return false;
}

/* prints the bits, so that nothing is rounded */
static void print(const std::string &path, const std::vector<at::Tensor> &results) {
  for (const at::Tensor &result : results) {
    at::Tensor t = result.contiguous();
    const uint32_t *bits = reinterpret_cast<const uint32_t *>(t.const_data_ptr<float>());
    std::printf("%s", path.substr(path.rfind('/') + 1).c_str());
    for (int64_t i = 0; i < t.numel(); i++)
      std::printf(" %08" PRIx32, bits[i]);
    std::printf("\n");
  }
}

typedef std::function<std::vector<at::Tensor>()> model_t;

static model_t load(const std::string &path) { /* loads a model with its inputs */
  static float numbers[13];
  for (int i = 0; i < 13; i++)
    numbers[i] = static_cast<float>(i) / 8 - 0.5f;
  at::Tensor x = at::from_blob(numbers, {3, 4}), more = at::from_blob(numbers + 12, {1});
  if (path.substr(path.size() - 3) == "pt2") {
    auto package = std::make_shared<torch::inductor::AOTIModelPackageLoader>(path);
    return [=] { return package->run({x, more}); };
  }
  auto module = std::make_shared<torch::jit::Module>(torch::jit::load(path));
  return [=] {
    const c10::IValue tuple = module->forward({x, more});
    std::vector<at::Tensor> results;
    for (const c10::IValue &value : tuple.toTupleRef().elements())
      results.push_back(value.toTensor());
    return results;
  };
}

/* the bytes that 2000 calls leave allocated, at the third attempt */
static size_t grown(const model_t &model) {
  size_t before = 0;
  for (int round = 0; round < 3; round++) {
    before = mallinfo2().uordblks;
    for (int i = 0; i < 2000; i++)
      model();
  }
  const size_t after = mallinfo2().uordblks;
  return after > before ? after - before : 0;
}

int main(int argc, char **argv) {
  const char *why;
  int at = 1;
  for (; at < argc && std::strcmp(argv[at], "--") != 0; at++) {
    if (tenon_torch_load(argv[at], &why) == TENON_OK) continue;
    std::printf("not loaded: %s\n", why);
    return 2;
  }
  if (tenon_torch_register("core", 0, NULL, &why) != TENON_OK) {
    std::printf("%s\n", why);
    return 2;
  }
  try {
    c10::InferenceMode guard;
    for (at++; at < argc; at++) {
      const model_t model = load(argv[at]);
      print(argv[at], model());
      if (grown(model) > 4000) {
        std::printf("%s: calls leave memory behind: %zu bytes\n", argv[at], grown(model));
        return 4;
      }
    }
  } catch (const std::exception &e) {
    std::string what = e.what();
    std::printf("failed: %s\n", what.substr(0, what.find("\nException raised from")).c_str());
    return 3;
  }
  std::printf("Python in the process: %s\n", has_python() ? "yes" : "no");
  return 0;
}
