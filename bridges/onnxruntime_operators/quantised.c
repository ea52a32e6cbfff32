/* Reads quantisation parameters; see quantised.h. */
#include "quantised.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"

/* One block: the parameters and the tensors that they lend. */
typedef struct parameters_t {
  tenon_detail_t detail;
  tenon_tensor_t *scale;
  tenon_tensor_t *zero_point;
} parameters_t;

static bool takes_quantised(const operator_t *self) {
  tenon_op_info_t info = {.size = sizeof info};
  bool is_found = false;
  host.tenon_op_info(self->op, &info);
  for (int32_t i = 0; i < info.kernel_count && !is_found; i++) {
    char *kernel = host.tenon_op_kernel(self->op, i);
    is_found = kernel && strstr(kernel, " quantised");
    free(kernel);
  }
  return is_found;
}

static tenon_status_t make_numbers(uint32_t id, size_t count, const void *from,
                                   tenon_tensor_t **out) {
  const int64_t shape[1] = {(int64_t)count};
  TENON_TRY(host.tenon_tensor_create(tenon_dtype(id), 1, shape, out));
  memcpy((*out)->data, from, count * sizeof(double));
  return TENON_OK;
}

/* One number holds for all scales. */
static tenon_status_t read_zero_point(const source_t *source, const char *name, size_t scale_count,
                                      tenon_tensor_t **out) {
  size_t count = 0;
  int64_t number = 0;
  int64_t *numbers = attribute_ints(source, name, &count);
  if (!numbers) {
    (void)attribute_int(source, name, &number);
    count = scale_count;
    numbers = calloc(count, sizeof *numbers);
    for (size_t i = 0; i < count && numbers; i++)
      numbers[i] = number;
  }
  if (!numbers) return host.tenon_error_set(TENON_MEMORY, "out of memory: zero points");
  const tenon_status_t status = make_numbers(TENON_I64, count, numbers, out);
  free(numbers);
  return status;
}

static tenon_status_t read_scale(const source_t *source, const char *name, tenon_tensor_t **out) {
  size_t count = 0;
  double *numbers = attribute_numbers(source, name, &count);
  if (!numbers) return TENON_OK;
  const tenon_status_t status = make_numbers(TENON_F64, count, numbers, out);
  free(numbers);
  return status;
}

static void free_parameters(parameters_t *p) {
  host.tenon_tensor_release(p->scale);
  host.tenon_tensor_release(p->zero_point);
  free(p);
}

static bool is_attribute(const operator_t *self, const char *name) {
  for (int32_t i = 0; i < self->attr_count; i++)
    if (strcmp(self->attrs[i].name, name) == 0) return true;
  return false;
}

static tenon_status_t read_parameters(kernel_t *kernel, const source_t *source, int32_t i) {
  const char *input = kernel->of->inputs[i].name;
  char name[200];
  int64_t axis = -1;
  parameters_t *p = calloc(1, sizeof *p);
  if (!p) return host.tenon_error_set(TENON_MEMORY, "out of memory: a scale");
  snprintf(name, sizeof name, "%.150s_scale", input);
  tenon_status_t status =
      is_attribute(kernel->of, name) ? TENON_OK : read_scale(source, name, &p->scale);
  snprintf(name, sizeof name, "%.150s_zero_point", input);
  if (status == TENON_OK && p->scale)
    status = read_zero_point(source, name, (size_t)p->scale->shape[0], &p->zero_point);
  snprintf(name, sizeof name, "%.150s_axis", input);
  (void)attribute_int(source, name, &axis);
  if (status != TENON_OK || !p->scale) {
    free_parameters(p);
    return status;
  }
  p->detail = (tenon_detail_t){.size = sizeof p->detail,
                               .kind = TENON_DETAIL_QUANTISED,
                               .axis = (int32_t)axis,
                               .scale = p->scale,
                               .zero_point = p->zero_point};
  kernel->details[i] = &p->detail;
  return TENON_OK;
}

tenon_status_t quantised_read(kernel_t *kernel, const source_t *source) {
  if (!takes_quantised(kernel->of)) return TENON_OK;
  for (int32_t i = 0; i < kernel->of->input_count; i++)
    if (kernel->of->inputs[i].kind == TENON_KIND_TENSOR)
      TENON_TRY(read_parameters(kernel, source, i));
  return TENON_OK;
}

void quantised_free(kernel_t *kernel) {
  for (int32_t i = 0; i < kernel->of->input_count; i++)
    if (kernel->details[i]) free_parameters((parameters_t *)(void *)kernel->details[i]);
}
