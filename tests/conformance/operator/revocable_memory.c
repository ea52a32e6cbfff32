/* Memory that becomes inaccessible as a whole; see revocable_memory.h. */
#include "revocable_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "core/dtype.h"

enum { PAGE = 4096 };

bool pages_open(pages_t *p, size_t size) {
  p->size = (size + PAGE - 1) / PAGE * PAGE + PAGE;
  p->used = 0;
  p->base = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p->base != MAP_FAILED;
}

void *pages_take(pages_t *p, size_t size) {
  void *at = p->base + p->used;
  p->used += (size + 63) / 64 * 64;
  return p->used <= p->size ? at : NULL;
}

void *pages_copy(pages_t *p, const void *from, size_t size) {
  void *to = from ? pages_take(p, size) : NULL;
  return to ? memcpy(to, from, size) : NULL;
}

void pages_lock(pages_t *p) { mprotect(p->base, p->size, PROT_NONE); }
void pages_close(pages_t *p) { munmap(p->base, p->size); }

/* Creates a view; its data, shape and structure lie in the pages. */
static tenon_tensor_t *place_tensor(pages_t *p, const tenon_tensor_t *t) {
  uint64_t bytes;
  if (!tn_dtype_bytes(t->dtype, tenon_count(t), &bytes)) return NULL;
  tenon_tensor_t *view = pages_take(p, sizeof *view);
  int64_t *shape = pages_take(p, (size_t)(t->ndim + 1) * sizeof *shape);
  int64_t *strides = pages_take(p, (size_t)(t->ndim + 1) * sizeof *strides);
  void *data = pages_take(p, bytes + 1);
  if (!view || !shape || !strides || !data) return NULL;
  memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
  memcpy(data, t->data, bytes);
  return tenon_tensor_view(view, data, t->dtype, t->ndim, shape, NULL, strides) == TENON_OK ? view
                                                                                            : NULL;
}

static bool is_plain(const tenon_tensor_t *t) {
  return !t ||
         (!tn_dtype_is(t->dtype, TENON_LIST) && !tn_dtype_is(t->dtype, TENON_STRING) && !t->detail);
}

bool pages_place(const example_t *example, pages_t *p, tenon_tensor_t *const *outputs,
                 tenon_tensor_t **out_inputs, tenon_tensor_t **out_outputs) {
  uint64_t size = 0;
  uint64_t bytes;
  for (uint32_t k = 0; k < 2; k++) {
    tenon_tensor_t *const *list = k ? outputs : example->inputs;
    for (uint32_t i = 0; i < (k ? example->op->output_count : example->op->input_count); i++) {
      if (!is_plain(list[i])) return false;
      if (list[i] && tn_dtype_bytes(list[i]->dtype, tenon_count(list[i]), &bytes))
        size += bytes + 4 * TENON_RANK_MAX * 8;
    }
  }
  if (!pages_open(p, size + 64 * PAGE)) return false;
  for (uint32_t i = 0; i < example->op->input_count; i++)
    out_inputs[i] = example->inputs[i] ? place_tensor(p, example->inputs[i]) : NULL;
  for (uint32_t o = 0; o < example->op->output_count; o++)
    out_outputs[o] = outputs[o] ? place_tensor(p, outputs[o]) : NULL;
  return true;
}
