// What module.cc gives to Python.
#ifndef BRIDGES_TORCH_DEVICE_FUNCTIONS_H
#define BRIDGES_TORCH_DEVICE_FUNCTIONS_H

#include <string>
#include <vector>

namespace tenon_torch {

void register_hooks();
// The operators that ran on the CPU, sorted by name, each with the number of its calls and the
// reason why the device did not serve the last one: "aten::add.out 3 core::add has no kernel ...".
std::vector<std::string> fallback_counts();
// Forbids or allows the fallback of an operator ("aten::abs", or with its overload).
void deny_fallback(const std::string &name, bool is_denied);
// Makes each fallback an error until as many callers have taken that back.
void set_strict(bool is_strict);
// Lets operators of Tenon compute an operator of PyTorch on the device (kernels.cc).
void add_plans(const std::string &aten, const std::string &plan);

} // namespace tenon_torch

#endif
