/* The sets of dtypes of an operator. ONNX Runtime knows no type variables: each set is an overload,
 * which it finds by the types of a node. It thus knows the types of outputs even where it knows no
 * ranks, and where inference of shapes could not state anything. */
#include <stdlib.h>
#include <string.h>

#include "common/ort_element.h"
#include "operator.h"

typedef struct search_t {
  operator_t *self;
  unsigned char given[SIDE_MOST]; /* the dtypes that are tried; UNDEFINED: none */
  bool is_mixed[SIDE_MOST];       /* a list whose tensors have dtypes of their own */
  tenon_meta_t metas[SIDE_MOST];
  tenon_meta_t items[SIDE_MOST][2];
  tenon_meta_t *item_places[SIDE_MOST][2];
  tenon_meta_t *inputs[SIDE_MOST];
  tenon_dtype_t results[SIDE_MOST];
  tenon_value_t values[SIDE_MOST];
  bool is_full; /* there are more sets than overloads */
} search_t;

/* The version of ONNX Runtime; before one is known, the newest. */
static uint32_t version(void) { return ort.version ? ort.version : ORT_VERSION_NEWEST; }

/* Whether sessions of this ONNX Runtime can be created with an overload of this dtype. */
static bool is_accepted(ort_element_t element) {
  if (element == 14 || element == 15) return false; /* complex numbers */
  if (element > 23) return false;                   /* whose numbers depend on the version */
  if (element == 23) return version() >= ORT_VERSION_REFERENCE;
  return element <= 20 || version() >= ORT_VERSION_SMALL; /* integers of 4 bits */
}

static tenon_meta_t *dtype_of(search_t *s, int32_t i) {
  const bool is_list = s->self->inputs[i].kind == TENON_KIND_TENSORS;
  return is_list ? &s->items[i][0] : &s->metas[i];
}

/* Attributes of the kinds of the schema. What depends on a dtype attribute is open, because each
 * node states it. */
static void set_values(search_t *s) {
  for (int32_t i = 0; i < s->self->attr_count; i++) {
    const tenon_argument_t *of = &s->self->attrs[i];
    s->values[i] = of->has_default ? of->value : (tenon_value_t){.kind = of->kind};
    if (of->kind == TENON_KIND_DTYPE) s->values[i] = (tenon_value_t){.kind = TENON_KIND_NONE};
  }
}

static tenon_status_t infer_types(search_t *s) {
  for (int32_t i = 0; i < s->self->input_count; i++) {
    s->metas[i] = (tenon_meta_t){.size = sizeof s->metas[i], .device = {1, 0}};
    s->inputs[i] = &s->metas[i];
    if (s->self->inputs[i].kind == TENON_KIND_TENSORS) {
      for (int k = 0; k < 2; k++) {
        s->items[i][k] = (tenon_meta_t){.size = sizeof s->items[i][k], .device = {1, 0}};
        s->item_places[i][k] = &s->items[i][k];
      }
      s->metas[i].dtype = tenon_dtype(TENON_LIST);
      s->metas[i].count = 2;
      s->metas[i].items = s->item_places[i];
    }
    (void)element_dtype((ort_element_t)s->given[i], &dtype_of(s, i)->dtype);
  }
  return host.tenon_types_infer(s->self->op, s->values, s->inputs, s->results);
}

/* The first input whose dtype follows from nothing; -1: none. */
static int32_t find_open(search_t *s) {
  for (int32_t i = 0; i < s->self->input_count; i++)
    if (!s->is_mixed[i] && !dtype_of(s, i)->dtype.bits) return i;
  return -1;
}

/* Sets the types of one side of an overload. Returns false if ONNX Runtime lacks one of them. */
static bool set_input_types(search_t *s, overload_t *made) {
  const formals_t *in = &s->self->in;
  for (int32_t i = 0; i < in->count; i++) {
    const tenon_dtype_t dtype = dtype_of(s, i)->dtype;
    const bool is_open = !dtype.bits || s->is_mixed[i] || (i == in->list && !in->is_homogeneous);
    made->inputs[i] = is_open ? ORT_ELEMENT_UNDEFINED : (unsigned char)element_of(dtype);
    if (!is_open && !is_accepted((ort_element_t)made->inputs[i])) return false;
    if (!is_open && !made->inputs[i]) return false;
  }
  return true;
}

static bool set_output_types(search_t *s, overload_t *made) {
  operator_t *self = s->self;
  for (int32_t o = 0; o < self->out.count; o++) {
    tenon_dtype_t dtype = o < self->output_count ? s->results[o] : (tenon_dtype_t){0, 0, 0};
    if (o >= self->output_count || self->written[o] >= 0)
      dtype = dtype_of(s, self->written[o])->dtype;
    const bool is_open = !dtype.bits || (o == self->out.list && !self->out.is_homogeneous);
    made->outputs[o] = is_open ? ORT_ELEMENT_UNDEFINED : (unsigned char)element_of(dtype);
    if (!is_open && (!made->outputs[o] || !is_accepted((ort_element_t)made->outputs[o])))
      return false;
    self->is_known &= !is_open;
  }
  return true;
}

static void add_overload(search_t *s) {
  operator_t *self = s->self;
  overload_t *made = &self->overloads[self->overload_count];
  memset(made, 0, sizeof *made);
  made->of = self;
  if (set_input_types(s, made) && set_output_types(s, made)) self->overload_count++;
}

/* Tries all dtypes of the inputs whose dtypes are open. */
static void search(search_t *s) {
  if (infer_types(s) != TENON_OK || s->is_full) return;
  const int32_t open = find_open(s);
  s->is_full = s->self->overload_count == OVERLOADS_MOST;
  if (s->is_full) return;
  if (open < 0) {
    add_overload(s);
    return;
  }
  for (int e = 1; e < ORT_ELEMENT_COUNT && !s->is_full; e++) {
    if (!is_accepted((ort_element_t)e)) continue;
    s->given[open] = (unsigned char)e;
    search(s);
  }
  s->given[open] = ORT_ELEMENT_UNDEFINED;
}

/* ---- lists ---- */

/* Whether the dtype of one tensor of a list is that of the others. */
static bool shares_dtype(search_t *s, int32_t i) {
  bool is_shared = false;
  for (int e = 1; e < ORT_ELEMENT_COUNT && !is_shared; e++) {
    s->given[i] = (unsigned char)e;
    is_shared = infer_types(s) == TENON_OK && s->items[i][1].dtype.bits;
  }
  s->given[i] = ORT_ELEMENT_UNDEFINED;
  return is_shared;
}

static void read_lists(search_t *s) {
  operator_t *self = s->self;
  self->in = (formals_t){.count = self->input_count, .list = -1, .is_homogeneous = true};
  self->out = (formals_t){.count = self->side_count, .list = -1, .is_homogeneous = true};
  for (int32_t i = 0; i < self->input_count; i++) {
    const bool is_list = self->inputs[i].kind == TENON_KIND_TENSORS;
    if (is_list) s->is_mixed[i] = !shares_dtype(s, i);
    if (self->in.list >= 0 && !is_list && !self->inputs[i].is_optional) self->in.least++;
    if (is_list && self->in.list < 0)
      self->in = (formals_t){.count = i + 1,
                             .list = i,
                             .is_homogeneous = i + 1 == self->input_count && !s->is_mixed[i]};
  }
  for (int32_t o = 0; o < self->output_count; o++)
    if (self->outputs[o].kind == TENON_KIND_TENSORS)
      self->out = (formals_t){.count = o + 1,
                              .list = o,
                              .least = self->side_count - o - 1,
                              .is_homogeneous = o + 1 == self->side_count};
}

/* An overload that states nothing: the kernel of a node checks its dtypes. */
static void add_open(operator_t *self) {
  overload_t *made = self->overloads;
  memset(made, 0, sizeof *made);
  made->of = self;
  self->in.is_homogeneous = self->out.is_homogeneous = false;
  self->is_known = false;
  self->overload_count = 1;
}

/* The first version in which a function may state the dtypes of outputs. Before 1.24 there is none
 * for operators with optional inputs; see custom.c. */
static uint32_t least_version(const operator_t *self) {
  for (int32_t i = 0; i < self->in.count; i++)
    if (self->inputs[i].is_optional) return ORT_VERSION_REFERENCE;
  return ORT_VERSION_OPEN;
}

const char *types_find(operator_t *self) {
  search_t *s = calloc(1, sizeof *s);
  self->overloads = calloc(OVERLOADS_MOST, sizeof *self->overloads);
  if (!s || !self->overloads) {
    free(s);
    return "memory is out";
  }
  s->self = self;
  self->is_known = true;
  set_values(s);
  read_lists(s);
  const bool is_clear = infer_types(s) == TENON_OK;
  if (is_clear) search(s);
  if (!is_clear || s->is_full) add_open(self);
  free(s);
  if (!self->is_known && version() < least_version(self))
    return "this version of ONNX Runtime has to know the dtypes of all outputs";
  if (!self->overload_count) return "it accepts only dtypes that ONNX Runtime does not have";
  overload_t *fitted =
      realloc(self->overloads, (size_t)self->overload_count * sizeof *self->overloads);
  if (fitted) self->overloads = fitted;
  return NULL;
}
