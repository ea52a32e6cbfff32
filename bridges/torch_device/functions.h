// What module.cc gives to Python.
#ifndef BRIDGES_TORCH_DEVICE_FUNCTIONS_H
#define BRIDGES_TORCH_DEVICE_FUNCTIONS_H

#include <string>
#include <vector>

namespace tenon_torch {

void register_hooks();
// The operators that ran on the CPU since clear_fallbacks, sorted by name: "aten::add.out 3".
std::vector<std::string> fallback_counts();
void clear_fallbacks();
// Forbids or allows the fallback of an operator ("aten::abs", or with its overload).
void deny_fallback(const std::string &name, bool is_denied);
// Makes each fallback an error, and returns whether it was one before.
bool set_strict(bool is_strict);
// Lets operators of Tenon compute an operator of PyTorch on the device (kernels.cc).
void add_plans(const std::string &aten, const std::string &plan);

} // namespace tenon_torch

#endif
