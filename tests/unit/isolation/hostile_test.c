/* A malicious library: it answers the program in place of the code that serves it, with random
 * replies and requests. Whatever it sends, a call ends with an error or with a result of the stated
 * dtype, and another library still works. */
#include "check.h"
#include "tensors.h"

#include "isolation.h"
#include "operators.h"

static int rounds_of(void) {
  const char *text = getenv("TENON_HOSTILE_ROUNDS");
  return text ? atoi(text) : 150;
}

static void check_item(const tenon_tensor_t *t, uint32_t dtype) {
  CHECK(tenon_dtype_id(t->dtype) == dtype && t->ndim >= 0 && t->ndim <= TENON_RANK_MAX &&
        tenon_count(t) >= 0);
  double sum = 0; /* Every element must be memory of this process. */
  for (int64_t i = 0; dtype == TENON_F32 && i < tenon_count(t); i++)
    sum += ((const float *)t->data)[i];
  for (int64_t i = 0; dtype == TENON_STRING && i < tenon_count(t); i++) {
    const tenon_string_t *text = &((const tenon_string_t *)t->data)[i];
    for (uint64_t k = 0; k < text->size; k++)
      sum += text->data[k];
  }
  CHECK(sum == sum || sum != sum);
}

static void lie(const char *name, uint32_t dtype) {
  const tenon_op_t *op = op_of(name);
  int answered = 0;
  for (int i = 0; op && i < rounds_of(); i++) {
    float x[3] = {(float)i, 2, 3};
    int64_t shape[1] = {3};
    int64_t room[1];
    tenon_tensor_t in;
    tenon_tensor_t *input = &in;
    tenon_tensor_t *out = NULL;
    tenon_tensor_view(&in, x, tenon_dtype(TENON_F32), 1, shape, NULL, room);
    if (tenon_op_call(op, NULL, &input, &out, 0) != TENON_OK) {
      CHECK(out == NULL && *tenon_error());
      continue;
    }
    answered++;
    if (tensor_has(out, TENON_LIST))
      for (int64_t k = 0; k < out->shape[0]; k++)
        check_item(tenon_item(out, k), dtype);
    else
      check_item(out, dtype);
    tenon_tensor_release(out);
  }
  CHECK(answered < rounds_of()); /* Some lies were detected. */
}

static void load(const char *path) {
  const tenon_isolation_t isolation = {
      .size = sizeof isolation, .deadline_ms = 1000, .shared = 256 << 20};
  CHECK_STATUS(tenon_library_load_isolated(path, 0, &isolation, NULL), TENON_OK);
}

TEST("what a worker process says about a result is believed only if it can be true") {
  load(MISBEHAVING("lies"));
  lie("lies::act", TENON_F32);
}

TEST("what it infers, and what it asks for, is believed only if it can be true") {
  lie("lies::open", TENON_F32);
}

TEST("what it says about lists and strings is believed only if it can be true") {
  lie("lies::several", TENON_F32);
  lie("lies::texts", TENON_STRING);
}

TEST("another library works after that, and nothing is left behind") {
  tenon_tensor_t *out = NULL;
  load(MISBEHAVING("halves_well"));
  CHECK_STATUS(call_op("halves_well::twice", NULL, (const char *const[]){"f32[2] 1 2"}, &out),
               TENON_OK);
  check_tensor(out, "f32[2] 2 4", 0, __FILE__, __LINE__);
  tenon_tensor_release(out);
  tenon_shutdown();
  CHECK(processes_below(1, NULL) == 0 && shared_mappings() == 0);
}
