/* PyTorch's autograd for operators with a gradient. Registered in Python alone, autograd would
 * enter Python in every call. Here a call that needs no gradient continues below autograd at once;
 * only other calls go to the operator _NAME_autograd, whose kernel is written in Python. */
#include <stdio.h>
#include <string.h>
#include <tenon/torch.h>

#include "operator.h"

uint16_t operator_autograd_key;

static bool wants_gradient(torch_tensor_t handle, bool is_on) {
  /* An at::Tensor is a pointer to its TensorImpl; torch_sees_gradients has tested this. */
  const void *tensor = *(void **)handle;
  bool is_defined = false;
  if (is_on && torch.requires_grad(tensor)) return true;
  torch_tensor_t forward = torch.forward_grad(tensor, 0, handle);
  return torch.aoti_torch_is_defined(forward, &is_defined) == 0 && is_defined;
}

static bool any_wants_gradient(const operator_t *self, const torch_value_t *stack) {
  const bool is_on = torch.aoti_torch_grad_mode_is_enabled();
  for (uint32_t i = 0; i < self->argument_count; i++) {
    const tenon_argument_t *a = &self->arguments[i];
    if (a->kind != TENON_KIND_TENSOR || (a->is_optional && !stack[i])) continue;
    torch_value_t value = a->is_optional ? *(const torch_value_t *)(uintptr_t)stack[i] : stack[i];
    if (wants_gradient((torch_tensor_t)(uintptr_t)value, is_on)) return true;
  }
  return false;
}

void operator_choose(const operator_t *self, torch_value_t *stack, uint64_t arguments,
                     uint64_t results) {
  char why[1200];
  int32_t bad;
  (void)arguments;
  (void)results;
  tenon_torch_explain(""); /* what an earlier call said */
  if (any_wants_gradient(self, stack)) {
    bad = torch.torch_call_dispatcher(self->autograd, self->overload, stack, torch_build_version);
  } else {
    const bool before = torch.is_excluded(operator_autograd_key);
    torch.exclude(operator_autograd_key, true);
    bad = torch.torch_call_dispatcher(self->own, self->overload, stack, torch_build_version);
    torch.exclude(operator_autograd_key, before);
  }
  if (!bad) return;
  snprintf(why, sizeof why, "%s", torch_what());
  torch.aoti_torch_check(false, self->name, __FILE__, __LINE__, why); /* This call throws. */
}
