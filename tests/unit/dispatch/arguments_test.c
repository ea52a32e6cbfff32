/* Every kind of argument through each fallback and each function that calls: on a device the result
 * is that of the same call on the CPU, or the stated error. Each copy of each such call also fails
 * once, which changes nothing on the device, or the message says of each written argument what
 * became of it. */
#include <stdlib.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "npu.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);
TENON_C const tenon_descriptor_t *tenon_library_partner(void);

enum {
  INPUTS = 3,
  OUTPUTS = 2,
};
/* forms of an input; otherwise it is a dense tensor of its own on the device */
enum {
  ON_HOST = 1,
  STRIDED,
  SAME_AS_FIRST,
  FIRST_FOUR,
  LAST_FOUR /* of the first one's six elements */,
  SECOND_DEVICE,
};
/* flags */
enum {
  OPEN = 1, /* the shapes of results are known after run */
  /* No tensor of the device is among the arguments: the thread's default device decides, or the
   * call runs on the host. */
  DRY = 2,
};
typedef struct kind_t {
  const char *name;
  const char *op;
  const char *attrs; /* `op` is the name without its library */
  const char *inputs[INPUTS];
  int forms[INPUTS];
  int flags;
  const char *refused; /* the error on a device; NULL: the message of the CPU */
} kind_t;

/* clang-format off */
static const kind_t kinds[] = {
  {"plain", "product", NULL, {"f32[2] 1 2", "f32[2] 3 4"}, {0}, 0, NULL},
  {"the same twice", "product", NULL, {"f32[2] 1 2", NULL}, {0, SAME_AS_FIRST}, 0, NULL},
  {"overlapping views", "product", NULL, {"f32[6] 1 2 3 4 5 6", NULL}, {FIRST_FOUR, LAST_FOUR}, 0,
   NULL},
  {"strided", "product", NULL, {"f32[2,3] 1 2 3 4 5 6", "f32[2,3] 1 2 3 4 5 6"}, {STRIDED, 0}, 0,
   NULL},
  {"no elements", "product", NULL, {"f32[0,2]", "f32[0,2]"}, {0}, 0, NULL},
  {"no axes", "product", NULL, {"f32[] 3", "f32[] 4"}, {0}, 0, NULL},
  {"a scalar of the host", "product", NULL, {"f32[2] 1 2", "f32[] 4"}, {0, ON_HOST}, 0, NULL},
  {"a tensor of the host", "product", NULL, {"f32[2] 1 2", "f32[2] 3 4"}, {0, ON_HOST}, 0,
   "in host memory: b, beside a on npu:0"},
  {"two ordinals", "product", NULL, {"f32[2] 1 2", "f32[2] 3 4"}, {0, SECOND_DEVICE}, 0, "npu"},
  {"written", "axpy_", "alpha=2", {"f32[3] 1 2 3", "f32[3] 10 20 30"}, {0}, 0, NULL},
  {"written and the result", "add_", NULL, {"f32[2] 1 2", "f32[2] 5 6"}, {0}, 0, NULL},
  {"written and read", "axpy_", "alpha=2", {"f32[3] 1 2 3", NULL}, {0, SAME_AS_FIRST}, 0, NULL},
  {"written, no elements", "axpy_", NULL, {"f32[0]", "f32[0]"}, {0}, 0, NULL},
  {"written, beside it a result", "touch_", NULL, {"f32[2] 1 2", "f32[2] 3 4"}, {0}, 0, NULL},
  {"written, absent", "touch_", NULL, {"f32[2] 1 2", NULL}, {0}, 0, NULL},
  {"written in part, overlapping", "axpy_", NULL, {"f32[6] 1 2 3 4 5 6", NULL},
   {FIRST_FOUR, LAST_FOUR}, 0, NULL},
  {"optional", "affine", NULL, {"f32[2] 1 2", "f32[2] 3 4", "f32[2] 5 6"}, {0}, 0, NULL},
  {"optional, absent", "affine", NULL, {"f32[2] 1 2", NULL, "f32[2] 5 6"}, {0}, 0, NULL},
  {"optional, host scalar", "affine", NULL, {"f32[2] 1 2", "f32[] 3", NULL}, {0, ON_HOST}, 0, NULL},
  {"a list", "stack", NULL, {"{f32[2] 1 2; f32[2] 3 4}"}, {0}, 0, NULL},
  {"a list of results", "split", "n=2", {"f32[4] 1 2 3 4"}, {0}, 0, NULL},
  {"two results", "both", NULL, {"f32[2] 1 2", "f32[2] 3 4"}, {0}, 0, NULL},
  {"strings", "length", NULL, {"string[2] a bcd"}, {ON_HOST}, DRY, NULL},
  {"no tensors", "attributes", NULL, {NULL}, {0}, DRY, NULL},
  {"shapes as data", "fill", NULL, {"f32[] 7", "i64[2] 2 3"}, {0, ON_HOST}, OPEN, NULL},
  {"results of unknown extent", "nonzero", NULL, {"f32[5] 0 3 0 -1 2"}, {0}, OPEN, NULL},
  {"results of unknown rank", "strip", NULL, {"f32[1,3,1] 1 2 3"}, {0}, OPEN, NULL},
  {"results that grow", "collect", "above=1.5", {"f32[4] 1 2 3 1"}, {0}, OPEN, NULL},
  {"state and workspace", "median", NULL, {"f32[3] 3 1 2"}, {0}, 0, NULL},
  {"a kernel that fails", "refuse", "above=2", {"f32[3] 1 2 3"}, {0}, 0, NULL},
};
/* clang-format on */
enum { KINDS = sizeof kinds / sizeof *kinds };

/* arguments */

static void free_memory(void *context) { free(context); }

/* Returns the same tensor over memory of its own, on the given device if there is one. */
static tenon_tensor_t *placed(const tenon_tensor_t *t, const tenon_device_t *device) {
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *items[16];
  if (!t) return NULL;
  if (tensor_has(t, TENON_LIST)) {
    for (int64_t i = 0; i < t->shape[0]; i++)
      items[i] = placed(tenon_item(t, i), device);
    CHECK_STATUS(tenon_tensor_list(items, (int32_t)t->shape[0], &out), TENON_OK);
    for (int64_t i = 0; i < t->shape[0]; i++)
      tenon_tensor_release(items[i]);
    return out;
  }
  /* Strided tensors here have no gaps. */
  size_t size = (size_t)tenon_count(t) * t->dtype.bits / 8;
  char *memory = malloc(size + 1);
  memcpy(memory, t->data, size);
  if (device)
    CHECK_STATUS(tenon_tensor_borrow_on(*device, hide(memory), t->dtype, t->ndim, t->shape,
                                        t->strides, free_memory, memory, &out),
                 TENON_OK);
  else
    CHECK_STATUS(tenon_tensor_borrow(memory, t->dtype, t->ndim, t->shape, t->strides, free_memory,
                                     memory, &out),
                 TENON_OK);
  return out;
}

/* Returns a tensor on the device as text; lists, too. */
static void print(const tenon_tensor_t *t, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  if (t && tensor_has(t, TENON_LIST)) {
    for (int64_t i = 0; i < t->shape[0] && used + 300 < size; i++) {
      print(tenon_item(t, i), text + used, size - used);
      used += strlen(text + used);
      text[used++] = ';';
      text[used] = 0;
    }
    return;
  }
  if (!t || t->device.type == 1) {
    tensor_print(t, text, size);
    return;
  }
  tenon_tensor_t on_host = *t;
  on_host.data = hide(t->data);
  tensor_print(&on_host, text, size);
}

typedef struct arguments_t {
  tenon_tensor_t *inputs[INPUTS];
  tenon_tensor_t *outputs[OUTPUTS];
  tenon_tensor_t *base;
} arguments_t;

static void make_inputs(const kind_t *k, bool on_device, arguments_t *a) {
  const tenon_device_t second = {npu_device.type, npu_device.id + 1};
  memset(a, 0, sizeof *a);
  for (int i = 0; i < INPUTS; i++) {
    int form = k->forms[i];
    const tenon_device_t *device = !on_device || form == ON_HOST ? NULL
                                   : form == SECOND_DEVICE       ? &second
                                                                 : &npu_device;
    if (form == SAME_AS_FIRST) {
      tenon_tensor_retain(a->inputs[i] = a->inputs[0]);
    } else if (form == FIRST_FOUR || form == LAST_FOUR) {
      int64_t four = 4;
      tenon_tensor_t *base = form == FIRST_FOUR ? tensor_of(k->inputs[i]) : NULL;
      if (base) a->base = placed(base, device);
      tenon_tensor_release(base);
      char *data = (char *)a->base->data + (form == LAST_FOUR ? 2 * sizeof(float) : 0);
      CHECK_STATUS(device ? tenon_tensor_borrow_on(*device, data, a->base->dtype, 1, &four, NULL,
                                                   NULL, NULL, &a->inputs[i])
                          : tenon_tensor_borrow(data, a->base->dtype, 1, &four, NULL, NULL, NULL,
                                                &a->inputs[i]),
                   TENON_OK);
    } else if (k->inputs[i]) {
      tenon_tensor_t *t = form == STRIDED ? tensor_strided(k->inputs[i]) : tensor_of(k->inputs[i]);
      if (tensor_has(t, TENON_STRING))
        tenon_tensor_retain(a->inputs[i] = t);
      else
        a->inputs[i] = placed(t, device);
      tenon_tensor_release(t);
    }
  }
}

static void release_arguments(arguments_t *a) {
  for (int i = 0; i < INPUTS; i++)
    tenon_tensor_release(a->inputs[i]);
  for (int o = 0; o < OUTPUTS; o++)
    tenon_tensor_release(a->outputs[o]);
  tenon_tensor_release(a->base);
}

/* The arguments after a call, as text. */
typedef struct texts_t {
  char inputs[INPUTS][600];
  char outputs[OUTPUTS][600];
} texts_t;

static void print_all(const arguments_t *a, texts_t *texts) {
  for (int i = 0; i < INPUTS; i++)
    print(a->inputs[i], texts->inputs[i], sizeof texts->inputs[i]);
  for (int o = 0; o < OUTPUTS; o++)
    print(a->outputs[o], texts->outputs[o], sizeof texts->outputs[o]);
}

/* calls */

enum {
  RUN,
  CALL_INTO,
  CALL,
  BOUND_RUN,
  BOUND_CALL,
  ENTRIES,
};
static const char *const entries[] = {"run", "call into", "call", "bound run", "bound call"};

static bool gives_outputs(int entry) {
  return entry == RUN || entry == CALL_INTO || entry == BOUND_RUN;
}

static tenon_status_t call(const tenon_op_t *op, const tenon_value_t *attrs, int entry,
                           arguments_t *a) {
  tenon_bound_t *bound = NULL;
  switch (entry) {
  case RUN:
    return tenon_op_run(op, attrs, a->inputs, a->outputs);
  case CALL_INTO:
    return tenon_op_call_into(op, attrs, a->inputs, a->outputs);
  case CALL:
    return tenon_op_call(op, attrs, a->inputs, a->outputs, 0);
  default:
    break;
  }
  tenon_status_t status = tenon_bound_create(op, attrs, &bound);
  CHECK_STATUS(status, TENON_OK);
  if (status != TENON_OK) return status;
  status = entry == BOUND_RUN ? tenon_bound_run(bound, a->inputs, a->outputs)
                              : tenon_bound_call(bound, a->inputs, a->outputs, 0);
  tenon_bound_release(bound);
  return status;
}

/* ways to call */

enum {
  BY_BACKEND,
  BY_OPERATOR,
  BY_PARTS,
  DENIED,
  STRICT,
  WAYS,
};
static const char *const ways[] = {"backend fallback", "operator fallback", "composite", "denied",
                                   "strict"};

typedef struct trial_t {
  const kind_t *kind;
  int way;
  int entry;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  /* The results on the CPU, in the form of the given ones. */
  tenon_tensor_t *like[OUTPUTS];
} trial_t;

static int64_t trials, failures_made;

static void wrong(const trial_t *t, const char *what, const char *found) {
  char text[3000];
  snprintf(text, sizeof text, "%s by %s, %s: %.2000s", t->kind->name, ways[t->way],
           entries[t->entry], what);
  check_report(0, __FILE__, __LINE__, text, found);
}

static bool is_written_input(const tenon_op_t *op, int32_t o,
                             int32_t *out_input) { /* a result that is one of the inputs */
  *out_input = strcmp(op_info(op).name, "contract::add_") == 0 && o == 0 ? 0 : -1;
  return *out_input >= 0;
}

static void make_outputs(const trial_t *t, arguments_t *a, bool on_device) {
  int32_t input;
  for (int o = 0; o < op_info(t->op).output_count && gives_outputs(t->entry); o++) {
    if (is_written_input(t->op, o, &input)) {
      tenon_tensor_retain(a->outputs[o] = a->inputs[input]);
      continue;
    }
    tenon_tensor_t *fresh = tensor_like(t->like[o]);
    bool is_here = !on_device || (t->kind->flags & DRY && t->kind->inputs[0]);
    if (fresh) a->outputs[o] = placed(fresh, is_here ? NULL : &npu_device);
    tenon_tensor_release(fresh);
  }
}

/* Does the message of a failed copy back list this argument after that word? */
static bool is_told(const char *word, const char *name) {
  const char *list = strstr(tenon_error(), word);
  const char *end;
  size_t size = strlen(name);
  if (!list) return false;
  list += strlen(word);
  end = list + strcspn(list, ";)");
  for (const char *at = list; at < end; at += strcspn(at, ",;)") + 2)
    if (strncmp(at, name, size) == 0 && strchr(",;)", at[size])) return true;
  return false;
}

static void check_told(const trial_t *t, const char *name, const char *before, const char *after,
                       const char *right) {
  bool undefined = is_told("undefined now: ", name);
  bool written = is_told("written: ", name) && !is_told("unwritten: ", name);
  bool unwritten = is_told("unwritten: ", name);
  if (undefined + written + unwritten != 1)
    wrong(t, "the message tells of each written argument once", tenon_error());
  if (written && strcmp(after, right) != 0) wrong(t, "what is said to be written is", after);
  if (unwritten && strcmp(after, before) != 0)
    wrong(t, "what is said to be unwritten is as it was", after);
}

/* Lets one copy of the call fail. */
static void check_failure(const trial_t *t, int64_t at, const texts_t *right) {
  arguments_t a;
  texts_t before, after;
  make_inputs(t->kind, true, &a);
  make_outputs(t, &a, true);
  print_all(&a, &before);
  copies = 0;
  copy_fails_at = at;
  tenon_status_t status = call(t->op, t->attrs, t->entry, &a);
  copy_fails_at = 0;
  failures_made++;
  if (status != TENON_UNAVAILABLE || !strstr(tenon_error(), "the bus is down"))
    wrong(t, "a copy that fails is told", tenon_error());
  print_all(&a, &after);
  bool is_back = strstr(tenon_error(), "copying back failed (") != NULL;
  for (int i = 0; i < op_info(t->op).input_count && i < INPUTS; i++) {
    tenon_argument_t argument = {.size = sizeof argument};
    CHECK_STATUS(tenon_op_argument(t->op, TENON_ARGUMENT_INPUT, i, &argument), TENON_OK);
    if (is_back && a.inputs[i] && argument.is_written)
      check_told(t, argument.name, before.inputs[i], after.inputs[i], right->inputs[i]);
    else if (!is_back && strcmp(before.inputs[i], after.inputs[i]) != 0)
      wrong(t, "an input is as it was", after.inputs[i]);
  }
  for (int o = 0; o < op_info(t->op).output_count && o < OUTPUTS; o++) {
    tenon_argument_t argument = {.size = sizeof argument};
    CHECK_STATUS(tenon_op_argument(t->op, TENON_ARGUMENT_OUTPUT, o, &argument), TENON_OK);
    if (!gives_outputs(t->entry) && a.outputs[o])
      wrong(t, "a result that is made is gone after a failure", after.outputs[o]);
    else if (is_back && a.outputs[o])
      check_told(t, argument.name, before.outputs[o], after.outputs[o], right->outputs[o]);
    else if (!is_back && strcmp(before.outputs[o], after.outputs[o]) != 0)
      wrong(t, "a result is as it was", after.outputs[o]);
  }
  release_arguments(&a);
}

static void check_trial(const trial_t *t, tenon_status_t on_cpu, const texts_t *right) {
  const char *refused = t->kind->refused;
  bool is_on_device = !(t->kind->flags & DRY) || !t->kind->inputs[0];
  arguments_t a;
  texts_t before, after;
  if (is_on_device && t->way == DENIED) refused = "must not fall back";
  if (is_on_device && t->way == STRICT) refused = "switched off (strict)";
  make_inputs(t->kind, true, &a);
  make_outputs(t, &a, true);
  print_all(&a, &before);
  copies = 0;
  trials++;
  if (t->kind->flags & DRY && is_on_device)
    CHECK_STATUS(tenon_device_default_set(npu_device), TENON_OK);
  tenon_status_t status = call(t->op, t->attrs, t->entry, &a);
  int64_t made = copies;
  print_all(&a, &after);
  if (refused || on_cpu != TENON_OK) {
    if (status == TENON_OK || (!refused && status != on_cpu))
      wrong(t, "it is refused as stated", status ? tenon_error() : after.outputs[0]);
    else if (refused && !strstr(tenon_error(), refused))
      wrong(t, refused, tenon_error());
    for (int i = 0; i < INPUTS; i++)
      if (strcmp(before.inputs[i], after.inputs[i]) != 0)
        wrong(t, "an input is as it was", after.inputs[i]);
    for (int o = 0; o < OUTPUTS && t->way != BY_PARTS; o++)
      if (strcmp(before.outputs[o], after.outputs[o]) != 0)
        wrong(t, "a result is as it was", after.outputs[o]);
  } else if (status != TENON_OK) {
    wrong(t, "it does what it does on the CPU", tenon_error());
  } else {
    for (int i = 0; i < INPUTS; i++)
      if (strcmp(after.inputs[i], right->inputs[i]) != 0)
        wrong(t, right->inputs[i], after.inputs[i]);
    for (int o = 0; o < OUTPUTS; o++) {
      if (strcmp(after.outputs[o], right->outputs[o]) != 0)
        wrong(t, right->outputs[o], after.outputs[o]);
      if (a.outputs[o] && (a.outputs[o]->device.type == 12) != is_on_device &&
          !tensor_has(a.outputs[o], TENON_LIST))
        wrong(t, "results are where the call ran", after.outputs[o]);
    }
    for (int64_t n = 1; n <= made && (t->way == BY_BACKEND || t->way == BY_OPERATOR); n++)
      check_failure(t, n, right);
  }
  CHECK_STATUS(tenon_device_default_set((tenon_device_t){1, 0}), TENON_OK);
  release_arguments(&a);
}

/* The way to call must be set up already. */
static void check_kind(const kind_t *k, int way) {
  char name[64];
  arguments_t a;
  texts_t right;
  const tenon_op_t *op = NULL;
  snprintf(name, sizeof name, "%s::%s", way == BY_PARTS ? "partner" : "contract", k->op);
  /* The library `partner` does not have all of them. */
  if (tenon_op_find(name, &op) != TENON_OK) return;
  tenon_attrs_t *attrs = attrs_of(op, k->attrs);
  trial_t t = {k, way, CALL, op, attr_values(attrs), {NULL}};
  tenon_registration_t *r = NULL;
  make_inputs(k, false, &a);
  bool was_strict = way == STRICT;
  tenon_status_t on_cpu = call(op, t.attrs, CALL, &a);
  print_all(&a, &right);
  for (int o = 0; o < OUTPUTS; o++)
    t.like[o] = a.outputs[o];
  if (on_cpu != TENON_OK && gives_outputs(RUN)) t.like[0] = a.inputs[0];
  if (way == BY_OPERATOR)
    CHECK_STATUS(tenon_kernel_add(name, "npu fallback", NULL, NULL, NULL, 0, &r), TENON_OK);
  if (way == DENIED)
    CHECK_STATUS(tenon_kernel_add(name, "npu no_fallback", NULL, NULL, NULL, 0, &r), TENON_OK);
  tenon_strict_set(was_strict);
  for (t.entry = 0; t.entry < ENTRIES; t.entry++)
    if (!(k->flags & OPEN) || !gives_outputs(t.entry)) check_trial(&t, on_cpu, &right);
  tenon_strict_set(0);
  tenon_registration_release(r);
  release_arguments(&a);
  tenon_attrs_release(attrs);
}

TEST("each kind of argument gives the CPU's result, or the stated error, through each fallback and "
     "each way to call") {
  npu_start();
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_library_add(tenon_library_partner(), NULL, NULL, NULL), TENON_OK);
  for (int way = 0; way < WAYS; way++) {
    /* From here on only the operator's own fallback remains. */
    if (way == BY_OPERATOR) tenon_registration_release(npu_falls);
    for (int k = 0; k < KINDS; k++)
      check_kind(&kinds[k], way);
    if (way == BY_OPERATOR)
      CHECK_STATUS(tenon_fallback_add("npu", tenon_fallback_cpu, NULL, NULL, 0, &npu_falls),
                   TENON_OK);
  }
  printf("%d kinds, %lld calls, %lld failed copies\n", KINDS, (long long)trials,
         (long long)failures_made);
}

TEST("strings cannot be on a device, and tensors of a device leave it by DLPack only as a copy") {
  tenon_tensor_t *text = tensor_of("string[1] a");
  tenon_tensor_t *made = NULL;
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *back = NULL;
  tenon_tensor_t *scalar = tensor_of("f32[] 3");
  tenon_tensor_t *wrapped = NULL;
  tenon_tensor_t *out = NULL;
  struct DLManagedTensorVersioned *managed = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(text, npu_device, &made), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "a tensor of string cannot be made on a device");
  CHECK_STATUS(tenon_tensor_copy_to(x, npu_device, &made), TENON_OK);
  CHECK_STATUS(tenon_tensor_to_dlpack(scalar, &managed),
               /* A scalar on the host, imported by DLPack, may be an argument. */
               TENON_OK);
  CHECK_STATUS(tenon_tensor_from_dlpack(managed, &wrapped), TENON_OK);
  CHECK_STATUS(
      tenon_op_call(op_of("contract::product"), NULL, (tenon_tensor_t *[]){made, wrapped}, &out, 0),
      TENON_OK);
  if (out) CHECK_STATUS(tenon_tensor_copy_to(out, (tenon_device_t){1, 0}, &back), TENON_OK);
  CHECK_TENSOR(back, "f32[2] 3 6");
  CHECK_STATUS(tenon_tensor_to_dlpack(x, &managed),
               /* A host tensor with axes is treated like any other host tensor. */
               TENON_OK);
  tenon_tensor_t *with_axes = NULL;
  tenon_tensor_t *none = NULL;
  CHECK_STATUS(tenon_tensor_from_dlpack(managed, &with_axes), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("contract::product"), NULL,
                             (tenon_tensor_t *[]){made, with_axes}, &none, 0),
               TENON_INVALID);
  tenon_tensor_release(text);
  tenon_tensor_release(made);
  tenon_tensor_release(x);
  tenon_tensor_release(back);
  tenon_tensor_release(scalar);
  tenon_tensor_release(wrapped);
  tenon_tensor_release(out);
  tenon_tensor_release(with_axes);
}

TEST("nothing is left behind") {
  tenon_shutdown();
  CHECK(blocks == 0);
}
