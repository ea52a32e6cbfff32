/* Operators of a library as Tenon states them: my_op(Tensor input0, ...) where their number is known without attributes, and always
 * the form with lists, my_op.list(Tensor[] inputs); and their gradients, _backward_my_op. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "infer.h"
#include "run.h"

enum { ITEMS_AN_OP = 32, ARGUMENTS_MOST = 64 };

typedef struct writer_t {
  hosted_t *library;
  char *text; /* that is being written */
  size_t size, capacity;
  bool failed;
} writer_t;

static void add(writer_t *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(writer_t *w, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const size_t more = (size_t)vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (!w->failed && w->size + more + 1 > w->capacity) {
    char *grown = realloc(w->text, w->capacity = 2 * (w->size + more + 1));
    if (grown) w->text = grown;
    else w->failed = true;
  }
  if (!w->failed) vsnprintf(w->text + w->size, more + 1, format, again), w->size += more;
  va_end(again);
}

/* The text so far, which the library keeps; the next begins. */
static const char *end(writer_t *w) {
  hosted_t *l = w->library;
  char **grown = w->failed ? NULL : realloc(l->texts, (l->text_count + 1) * sizeof *grown);
  char *text = w->text;
  if (!grown) return free(text), w->failed = true, w->text = NULL, "";
  l->texts = grown, l->texts[l->text_count++] = text;
  w->text = NULL, w->size = w->capacity = 0;
  return text;
}

static void item(writer_t *w, tenon_item_t made) { w->library->items[w->library->item_count++] = made; }
static void text_item(writer_t *w, uint32_t tag) { item(w, (tenon_item_t){tag, 0, 0, end(w), NULL}); }

/* "input0, input1", or "input" alone; with "Tensor " before each, or another word, and marks of those that are written to. */
static void add_names(writer_t *w, const char *word, const char *name, int count, uint64_t written) {
  for (int i = 0; i < count; i++) {
    add(w, "%s%s", i ? ", " : "", word);
    if (i < 64 && written >> i & 1) add(w, "(%c!)", i < 26 ? 'a' + i : 'A' + i - 26);
    add(w, "%s%s", *word ? " " : "", name);
    if (count > 1) add(w, "%d", i);
  }
}

/* ---- one operator ------------------------------------------------------------------------------------------------- */

static bool has_backward(const hosted_op_t *op) {
  return op->create.cpu || op->create.gpu || op->backward.cpu || op->backward.gpu;
}

static void add_kernels(writer_t *w, const functions_t *of, const functions_t *create, tenon_run_fn run) {
  if (of->cpu || create->cpu) item(w, (tenon_item_t)TENON_KERNEL("cpu sparse", run));
  if (of->gpu || create->gpu) item(w, (tenon_item_t)TENON_KERNEL("cuda", run));
}

static void add_doc(writer_t *w, const hosted_op_t *op, const char *form) {
  const bool is_stateful = op->create.cpu || op->create.gpu;
  const functions_t *forward = is_stateful ? &op->create : &op->forward;
  add(w, "MXNet's operator %s%s, of library interface %d.\n", op->name, form, w->library->version);
  add(w, "%s; on %s%s%s; %s", is_stateful ? "Has state" : "Has no state", forward->cpu ? "cpu" : "",
      forward->cpu && forward->gpu ? ", " : "", forward->gpu ? "cuda" : "",
      is_stateful || op->backward.cpu || op->backward.gpu ? "has a gradient" : "has no gradient");
  add(w, "%s%s%s%s. Its attributes are texts, by name.", op->mutates ? "; writes to inputs" : "",
      op->storages ? "; states how tensors are stored" : "", op->is_subgraph ? "; runs a graph" : "",
      w->library->is_random ? "; may draw random numbers" : "");
  text_item(w, TENON_TAG_DOC);
}

static void add_common(writer_t *w) {
  item(w, (tenon_item_t)TENON_FN_(CREATE, 0, tenon_node_t, state_create));
  item(w, (tenon_item_t)TENON_FREE_(DESTROY, state_destroy));
  if (w->library->is_random) item(w, (tenon_item_t)TENON_TRAITS(TENON_RANDOM | TENON_DRAWS(1)));
}

/* The object that forward used; what has none makes a state of its own, of the same attributes. */
static const char *state_of(const hosted_op_t *op) { return op->create.cpu || op->create.gpu ? ", @state" : ""; }

static void add_list(writer_t *w, const hosted_op_t *op) {
  const char *overload = op->in_count < 0 ? "" : ".list";
  add(w, "%s%s(Tensor[] inputs, *, str[] **attributes) -> Tensor[] outputs", op->name, overload);
  text_item(w, TENON_TAG_OP);
  add_doc(w, op, " for any number of inputs");
  item(w, (tenon_item_t)TENON_TYPES("inputs, outputs = ?"));
  item(w, (tenon_item_t)TENON_INFER(infer_forward));
  add_common(w);
  if (has_backward(op)) {
    add(w, "inputs: _backward_%s%s(grad.outputs, inputs, outputs%s, attributes=attributes)", op->name, overload,
        state_of(op));
    text_item(w, TENON_TAG_GRADIENT);
  }
  add_kernels(w, &op->forward, &op->create, run_forward);
  if (!has_backward(op)) return;
  add(w,
      "_backward_%s%s(Tensor[] gradients, Tensor[] inputs, Tensor[] outputs, *, str[] **attributes) -> Tensor[] "
      "results",
      op->name, overload);
  text_item(w, TENON_TAG_OP);
  add(w, "Gradient of %s.", op->name);
  text_item(w, TENON_TAG_DOC);
  item(w, (tenon_item_t)TENON_TYPES("gradients, inputs, outputs, results = ?"));
  item(w, (tenon_item_t)TENON_INFER(infer_backward));
  item(w, (tenon_item_t)TENON_GRADIENT("gradients, inputs, outputs: error"));
  add_common(w);
  add_kernels(w, &op->backward, &op->create, run_backward);
}

static void add_backward(writer_t *w, const hosted_op_t *op) {
  const int in = op->in_count, out = op->out_count;
  add(w, "_backward_%s(", op->name);
  add_names(w, "Tensor", "gradient", out, 0), add(w, ", ");
  add_names(w, "Tensor", "input", in, 0), add(w, ", ");
  add_names(w, "Tensor", "output", out, 0);
  add(w, ", *, str[] **attributes) -> (");
  add_names(w, "Tensor", "result", in, 0), add(w, ")");
  text_item(w, TENON_TAG_OP);
  add(w, "Gradient of %s.", op->name);
  text_item(w, TENON_TAG_DOC);
  add_names(w, "", "gradient", out, 0), add(w, ", "), add_names(w, "", "input", in, 0), add(w, ", ");
  add_names(w, "", "output", out, 0), add(w, ", "), add_names(w, "", "result", in, 0), add(w, " = ?");
  text_item(w, TENON_TAG_TYPES);
  item(w, (tenon_item_t)TENON_INFER(infer_backward));
  add_names(w, "", "gradient", out, 0), add(w, ", "), add_names(w, "", "input", in, 0), add(w, ", ");
  add_names(w, "", "output", out, 0), add(w, ": error");
  text_item(w, TENON_TAG_GRADIENT);
  add_common(w);
  add_kernels(w, &op->backward, &op->create, run_backward);
}

static void add_fixed(writer_t *w, const hosted_op_t *op) {
  const int in = op->in_count, out = op->out_count;
  const bool has_gradient = has_backward(op) && in && out && 2 * out + in <= ARGUMENTS_MOST;
  add(w, "%s(", op->name);
  add_names(w, "Tensor", "input", in, op->written), add(w, "%s*, str[] **attributes) -> (", in ? ", " : "");
  add_names(w, "Tensor", "output", out, 0), add(w, ")");
  text_item(w, TENON_TAG_OP);
  add_doc(w, op, "");
  add_names(w, "", "input", in, 0), add(w, in && out ? ", " : ""), add_names(w, "", "output", out, 0);
  if (in || out) add(w, " = ?"), text_item(w, TENON_TAG_TYPES);
  item(w, (tenon_item_t)TENON_INFER(infer_forward));
  add_common(w);
  if (has_gradient) {
    add_names(w, "", "input", in, 0), add(w, ": _backward_%s(", op->name);
    add_names(w, "", "grad.output", out, 0), add(w, ", "), add_names(w, "", "input", in, 0), add(w, ", ");
    add_names(w, "", "output", out, 0), add(w, "%s, attributes=attributes)", state_of(op));
    text_item(w, TENON_TAG_GRADIENT);
  }
  add_kernels(w, &op->forward, &op->create, run_forward);
  if (has_gradient) add_backward(w, op);
}

/* ---- what it has without attributes ------------------------------------------------------------------------------- */

typedef struct asked_t {
  const hosted_op_t *op;
  int in_count, out_count, *which, which_count;
} asked_t;

static int parse(void *argument) {
  asked_t *a = argument;
  return a->op->library->abi._opCallParseAttrs(a->op->parse, NULL, NULL, 0, &a->in_count, &a->out_count);
}

static int mutates(void *argument) {
  asked_t *a = argument;
  return a->op->library->abi._opCallMutateInputs(a->op->mutates, NULL, NULL, 0, &a->which, &a->which_count);
}

/* Operators that need attributes refuse to say; what they say of that is nobody's business. */
static void count_arguments(hosted_op_t *op) {
  asked_t asked = {.op = op, .in_count = -1, .out_count = -1};
  char why[WHY] = "", ignored[WHY] = "";
  if (op->is_subgraph || guard_call(parse, &asked, why, sizeof why) <= 0) asked.in_count = -1;
  if (asked.in_count > 0 && op->mutates) {
    if (guard_call(mutates, &asked, why, sizeof why) <= 0) asked.in_count = -1;
    for (int i = 0; i < asked.which_count && asked.in_count > 0; i++) {
      if (asked.which[i] < 0 || asked.which[i] >= asked.in_count || asked.which[i] >= 52) asked.in_count = -1;
      else op->written |= (uint64_t)1 << asked.which[i];
    }
    if (asked.which) op->library->abi._opCallFree(asked.which);
  }
  hosted_messages(op->library, ignored, sizeof ignored);
  if (asked.in_count < 0 || asked.out_count < 0 || asked.in_count > ARGUMENTS_MOST || asked.out_count > ARGUMENTS_MOST)
    return;
  op->in_count = asked.in_count, op->out_count = asked.out_count;
}

bool hosted_describe(hosted_t *l, char *why, size_t capacity) {
  static const char *const systems[] = {[7] = "1.7", [10] = "1.8", [11] = "1.9 or 2.0"};
  writer_t w = {.library = l};
  l->items = calloc((size_t)(l->op_count + 1) * 2 * ITEMS_AN_OP, sizeof *l->items);
  if (!l->items) return snprintf(why, capacity, "out of memory"), false;
  add(&w, "library of MXNet %s, interface %d", systems[l->version], l->version);
  text_item(&w, TENON_TAG_ABOUT);
  for (int i = 0; i < l->op_count; i++) {
    count_arguments(&l->ops[i]);
    if (l->ops[i].in_count >= 0) add_fixed(&w, &l->ops[i]);
    add_list(&w, &l->ops[i]);
  }
  snprintf(l->version_text, sizeof l->version_text, "%d", l->version);
  l->descriptor =
      (tenon_descriptor_t){sizeof l->descriptor, TENON_ABI, TENON_LAYOUT, 0, l->ns, l->version_text, l->items};
  free(w.text);
  return !w.failed || (snprintf(why, capacity, "out of memory"), false);
}
