/* Tensors on devices from an allocator of the program: when it is called, the tensors that it
 * returns, and those that are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

#include "owner.h"

typedef struct pieces_t { /* Pieces of an owner's memory, given out one behind the other. */
  owner_t owner;
  uint64_t used;
  uint64_t step;
  int asked;
  int let_go;
  enum {
    GOOD,
    OTHER_SHAPE,
    OTHER_DTYPE,
    READ_ONLY,
    STRIDED,
    ELSEWHERE,
    NONE,
    FAILS,
  } way;
} pieces_t;

static void let_go(void *pieces) { ((pieces_t *)pieces)->let_go++; }

static tenon_status_t give(void *state, tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                           const int64_t *shape, tenon_tensor_t **out_tensor,
                           const char **out_why) {
  pieces_t *p = state;
  const int64_t gaps[] = {2};
  const int64_t more = 9;
  p->asked++;
  if (p->way == FAILS) {
    *out_why = "the moon is wrong";
    return TENON_MEMORY;
  }
  if (p->way == NONE) return TENON_OK;
  if (p->way == ELSEWHERE) return tenon_tensor_create(dtype, ndim, shape, out_tensor);
  tenon_external_t e =
      owner_numbers(&p->owner, p->used, p->way == OTHER_SHAPE ? &more : shape, p->owner.stream);
  e.device = device;
  e.dtype = p->way == OTHER_DTYPE ? tenon_dtype(TENON_I32) : dtype;
  e.ndim = ndim;
  e.flags = p->way == READ_ONLY ? TENON_EXTERNAL_READ_ONLY : 0;
  e.strides = p->way == STRIDED ? gaps : NULL;
  e.release = let_go;
  e.context = p;
  p->used += p->step;
  return tenon_tensor_import(&e, out_tensor);
}

static pieces_t pieces_on(int handles) {
  tenon_shutdown();
  setenv("TENON_SIM", handles ? "handles=1" : "", 1);
  return (pieces_t){.owner = owner_of(sim_open(0, "check=fail,delay=300")), .step = 64};
}

static tenon_status_t call(const char *name, tenon_tensor_t *a, tenon_tensor_t *b,
                           tenon_tensor_t **out) {
  *out = NULL;
  return tenon_op_call(op_of(name), NULL, (tenon_tensor_t *[]){a, b}, out, 0);
}

TEST("the thread's allocator creates results in order with its stream, and their context "
     "identifies them") {
  for (int handles = 0; handles < 2; handles++) {
    pieces_t p = pieces_on(handles);
    const tenon_allocator_t mine = {give, &p};
    const int64_t none = 0;
    tenon_tensor_t *x = tensor_there(p.owner.device, "f32[4] 1 -2 3 -4");
    tenon_tensor_t *y, *z, *found, *empty, *nothing;
    CHECK_STATUS(tenon_tensor_create_on(p.owner.device, tenon_dtype(TENON_F32), 1, &none, &empty),
                 TENON_OK);
    tenon_registration_t *fallback;
    CHECK_STATUS(tenon_fallback_add("sim", tenon_fallback_cpu, NULL, NULL, 0, &fallback), TENON_OK);
    uint64_t before = stats_of(p.owner.device).device_allocations;
    CHECK(tenon_allocator_use(&mine) == NULL);
    CHECK_STATUS(call("core::add", x, x, &y), TENON_OK);
    /* The kernel is compiled from source, or the call falls back. */
    CHECK_STATUS(call("core::abs", y, NULL, &z), TENON_OK);
    CHECK_STATUS(call("core::nonzero", z, NULL, &found),
                 /* The size of the result is known only after the run. */
                 TENON_OK);
    CHECK(p.asked == 3 && stats_of(p.owner.device).device_allocations == before);
    CHECK_STATUS(call("core::add", empty, empty, &nothing), TENON_OK);
    CHECK(p.asked == 3); /* A result without elements needs no memory. */
    CHECK(tenon_allocator_use(NULL) == &mine);
    CHECK(tenon_tensor_context(y, let_go) == &p && tenon_tensor_context(found, let_go) == &p);
    CHECK(!tenon_tensor_context(x, let_go) && !tenon_tensor_context(y, free));
    check_there(y, "f32[4] 2 -4 6 -8");
    check_there(z, "f32[4] 2 4 6 8");
    check_there(found, "i64[1,4] 0 1 2 3");
    tenon_tensor_release(y);
    tenon_tensor_release(z);
    tenon_tensor_release(found);
    CHECK(p.let_go == 3);
    /* The host's own allocator is in use again. */
    CHECK_STATUS(call("core::add", x, x, &y), TENON_OK);
    CHECK(p.asked == 3 && !tenon_tensor_context(y, let_go));
    tenon_tensor_release(y);
    tenon_tensor_release(x);
    tenon_tensor_release(empty);
    tenon_tensor_release(nothing);
    tenon_registration_release(fallback);
    CHECK(races_on(&p.owner) == 0);
    owner_end(&p.owner);
  }
}

TEST("an allocator's tensor that does not fit is refused, and its failure is reported; if it gives "
     "none, the host allocates") {
  static const struct {
    int way;
    uint64_t used;
    const char *text;
  } cases[] = {{OTHER_SHAPE, 0, "gave f32 [9]: expected a dense f32 [4]"},
               {OTHER_DTYPE, 0, "gave i32 [4]: expected a dense f32 [4]"},
               {READ_ONLY, 0, "read-only"},
               {STRIDED, 0, "f32 [4] with gaps"},
               {ELSEWHERE, 0, "of another device"},
               {GOOD, 16, "expected a multiple of 64"},
               {FAILS, 0, "the allocator that was set failed: the moon is wrong"}};
  for (int handles = 0; handles < 2; handles++) {
    pieces_t p = pieces_on(handles);
    const tenon_allocator_t mine = {give, &p};
    tenon_tensor_t *x = tensor_there(p.owner.device, "f32[4] 1 2 3 4");
    tenon_tensor_t *y;
    (void)tenon_allocator_use(&mine);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      int let_go_before = p.let_go;
      p.way = cases[i].way;
      p.used = cases[i].used;
      CHECK(call("core::add", x, x, &y) != TENON_OK && !y);
      CHECK_TEXT(tenon_error(), cases[i].text);
      CHECK(p.let_go == let_go_before + (p.way != FAILS && p.way != ELSEWHERE));
    }
    p.way = NONE;
    CHECK_STATUS(call("core::add", x, x, &y), TENON_OK);
    CHECK(!tenon_tensor_context(y, let_go));
    (void)tenon_allocator_use(NULL);
    check_there(y, "f32[4] 2 4 6 8");
    tenon_tensor_release(y);
    tenon_tensor_release(x);
    owner_end(&p.owner);
  }
}
