/* story.c: shows from a program what npu.c provides. Usage: story LIBRARY. It prints one line for
 * each part, and fails if a part does not behave as README.md says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static void fail(const char *what) {
  fprintf(stderr, "%s; last message: %s\n", what, tenon_error());
  exit(1);
}
static void check(int fine, const char *what) {
  if (!fine) fail(what);
}
static void need(tenon_status_t status, const char *what) { check(status == TENON_OK, what); }

static const tenon_op_t *find(const char *name) {
  const tenon_op_t *op = NULL;
  need(tenon_op_find(name, &op), name);
  return op;
}

/* A row of numbers on a device. */
static tenon_tensor_t *row(tenon_device_t device, const float *values, int64_t count) {
  tenon_tensor_t *host, *made;
  need(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &host), "create");
  memcpy(host->data, values, (size_t)count * sizeof *values);
  need(tenon_tensor_copy_to(host, device, &made), "copy_to");
  tenon_tensor_release(host);
  return made;
}

static void read_back(const tenon_tensor_t *t, float *values) {
  tenon_tensor_t *host;
  need(tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &host), "copy_to");
  memcpy(values, host->data, (size_t)tenon_count(host) * sizeof *values);
  tenon_tensor_release(host);
}

/* Checks that a call with one input is refused, with a message that contains these words. */
static void refused(const char *name, tenon_tensor_t *x, const char *words) {
  tenon_tensor_t *in[3] = {x};
  tenon_tensor_t *out[2] = {NULL};
  check(tenon_op_call(find(name), NULL, in, out, 0) == TENON_UNIMPLEMENTED, name);
  check(strstr(tenon_error(), words) != NULL, words);
  printf("refused: %s\n", tenon_error());
}

int main(int argc, char **argv) {
  check(argc == 2, "usage: story LIBRARY");
  need(tenon_library_load(argv[1], 0, NULL), argv[1]);
  need(tenon_backend_check("npu"), "what a device must bring");
  tenon_device_t npu;
  need(tenon_device_find("npu", 0, &npu), "npu");

  const float values[4] = {-2, -0.5f, 0.25f, 3};
  tenon_tensor_t *x = row(npu, values, 4);
  tenon_tensor_t *out[2] = {NULL};
  /* Nothing falls back until the program allows it. */
  refused("core::sqrt", x, "core::sqrt: no kernel for npu");
  tenon_registration_t *fallback;
  need(tenon_fallback_add("npu", tenon_fallback_cpu, NULL, NULL, 0, &fallback), "fallback");
  refused("core::nonzero", x, "library npu says that it must not fall back");
  /* Another operator falls back now. */
  need(tenon_op_call(find("core::sign"), NULL, &x, out, 0), "core::sign");
  tenon_tensor_release(out[0]);
  out[0] = NULL;

  float found[4];
  const float ones[4] = {1, 1, 1, 1};
  tenon_tensor_t *grad = row(npu, ones, 4);
  need(tenon_tensor_require_grad(x, 1), "require_grad");
  need(tenon_op_call(find("npu::swish"), NULL, &x, out, 0), "npu::swish");
  need(tenon_backward(out, &grad, 1, 0), "backward");
  check(tenon_tensor_grad(x) && tenon_tensor_grad(x)->device.type == npu.type,
        "the gradient is where its tensor is");
  read_back(tenon_tensor_grad(x), found);
  /* The expected gradient comes from finite differences in double. */
  for (int i = 0; i < 4; i++) {
    double h = 1e-5;
    double up = values[i] + h;
    double down = values[i] - h;
    double slope = (up / (1 + exp(-up)) - down / (1 + exp(-down))) / (2 * h);
    check(fabs(found[i] - slope) < 1e-6, "the gradient of npu::swish");
  }
  printf("gradient of npu::swish: %.6f %.6f %.6f %.6f\n", found[0], found[1], found[2], found[3]);
  tenon_tensor_release(out[0]);
  out[0] = NULL;

  tenon_device_t meta;
  tenon_tensor_t *pair[2];
  const int64_t shapes[2][3] = {{8, 128, 64}, {8, 77, 64}};
  need(tenon_device_find("meta", 0, &meta), "meta");
  for (int i = 0; i < 2; i++)
    need(tenon_tensor_create_on(meta, tenon_dtype(TENON_F16), 3, shapes[i], &pair[i]),
         "a tensor of meta");
  need(tenon_op_call(find("npu::scores"), NULL, pair, out, 0), "npu::scores");
  check(out[0]->ndim == 3 && out[0]->shape[1] == 128 && out[0]->shape[2] == 77,
        "the shape of npu::scores");
  printf("npu::scores on meta: [%lld, %lld, %lld]\n", (long long)out[0]->shape[0],
         (long long)out[0]->shape[1], (long long)out[0]->shape[2]);
  char *report;
  need(tenon_fallback_report(&report), "report");
  printf("%s", report);
  tenon_text_release(report);
  tenon_tensor_t *const all[] = {x, grad, out[0], pair[0], pair[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    tenon_tensor_release(all[i]);
  tenon_shutdown();
  return 0;
}
