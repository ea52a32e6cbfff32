/* Declares the operators of a library to Tenon: my_op(Tensor input0, ...) if the number of
 * arguments is known without attributes; always the form with lists, my_op.list(Tensor[] inputs);
 * and the gradients, _backward_my_op. */
#include "describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "infer.h"
#include "message.h"
#include "run.h"
#include "writer.h"

enum {
  ITEMS_AN_OP = 32,
  ARGUMENTS_MOST = 64,
};

typedef struct description_t {
  hosted_t *library;
  writer_t text; /* the text that is being written */
} description_t;

#define add(d, ...) writer_add(&(d)->text, __VA_ARGS__)

/* Ends the current text and starts an empty one. The library keeps the text that is returned. */
static const char *end(description_t *d) {
  hosted_t *l = d->library;
  char **grown = d->text.failed ? NULL : realloc(l->texts, (l->text_count + 1) * sizeof *grown);
  if (!grown) {
    free(d->text.text);
    d->text = (writer_t){.failed = true};
    return "";
  }
  l->texts = grown;
  l->texts[l->text_count++] = d->text.text;
  d->text = (writer_t){NULL, 0, 0, false};
  return l->texts[l->text_count - 1];
}

static void item(description_t *d, tenon_item_t made) {
  d->library->items[d->library->item_count++] = made;
}
static void text_item(description_t *d, uint32_t tag) {
  item(d, (tenon_item_t){tag, 0, 0, end(d), NULL});
}

/* Adds the names "input0, input1", or "input" if there is only one. `word`, such as "Tensor",
 * precedes each name. Arguments that are written to carry a mark. */
static void add_names(description_t *d, const char *word, const char *name, int count,
                      uint64_t written) {
  for (int i = 0; i < count; i++) {
    add(d, "%s%s", i ? ", " : "", word);
    if (i < 64 && written >> i & 1) add(d, "(%c!)", i < 26 ? 'a' + i : 'A' + i - 26);
    add(d, "%s%s", *word ? " " : "", name);
    if (count > 1) add(d, "%d", i);
  }
}

/* one operator */

static bool has_backward(const hosted_op_t *op) {
  return op->create.cpu || op->create.gpu || op->backward.cpu || op->backward.gpu;
}

static void add_kernels(description_t *d, const functions_t *of, const functions_t *create,
                        tenon_run_fn run) {
  if (of->cpu || create->cpu) item(d, (tenon_item_t)TENON_KERNEL("cpu sparse", run));
  if (of->gpu || create->gpu) item(d, (tenon_item_t)TENON_KERNEL("cuda", run));
}

static void add_doc(description_t *d, const hosted_op_t *op, const char *form) {
  const bool is_stateful = op->create.cpu || op->create.gpu;
  const functions_t *forward = is_stateful ? &op->create : &op->forward;
  add(d, "MXNet's operator %s%s, of library interface %d.\n", op->name, form, d->library->version);
  const bool has_gradient = is_stateful || op->backward.cpu || op->backward.gpu;
  add(d, "%s; on ", is_stateful ? "Has state" : "Has no state");
  if (forward->cpu) add(d, "cpu");
  if (forward->cpu && forward->gpu) add(d, ", ");
  if (forward->gpu) add(d, "cuda");
  add(d, "; %s", has_gradient ? "has a gradient" : "has no gradient");
  if (op->mutates) add(d, "; writes to inputs");
  if (op->storages) add(d, "; states how tensors are stored");
  if (op->is_subgraph) add(d, "; runs a graph");
  if (d->library->is_random) add(d, "; may draw random numbers");
  add(d, ". Its attributes are strings, passed by name.");
  text_item(d, TENON_TAG_DOC);
}

static void add_common(description_t *d) {
  item(d, (tenon_item_t)TENON_FN_(CREATE, 0, tenon_node_t, state_create));
  item(d, (tenon_item_t)TENON_FREE_(DESTROY, state_destroy));
  if (d->library->is_random) item(d, (tenon_item_t)TENON_TRAITS(TENON_RANDOM | TENON_DRAWS(1)));
}

/* Passes the object that forward used to backward (@state). An operator without such objects gets
 * no argument here: its backward creates a state of its own from the same attributes. */
static const char *state_of(const hosted_op_t *op) {
  return op->create.cpu || op->create.gpu ? ", @state" : "";
}

static void add_list_backward(description_t *d, const hosted_op_t *op, const char *overload,
                              const char *attributes) {
  add(d,
      "_backward_%s%s(Tensor[] gradients, Tensor[] inputs, Tensor[] outputs, *, %s) -> Tensor[] "
      "results",
      op->name, overload, attributes);
  text_item(d, TENON_TAG_OP);
  add(d, "Gradient of %s.", op->name);
  text_item(d, TENON_TAG_DOC);
  item(d, (tenon_item_t)TENON_TYPES("gradients, inputs, outputs, results = ?"));
  item(d, (tenon_item_t)TENON_INFER(infer_backward));
  item(d, (tenon_item_t)TENON_GRADIENT("gradients, inputs, outputs: error"));
  add_common(d);
  add_kernels(d, &op->backward, &op->create, run_backward);
}

/* A subgraph operator has the inputs and results of its graph. */
static void add_subgraph(description_t *d, const hosted_op_t *op) {
  static const char *const attributes =
      "graph " HOSTED_ATTR_GRAPH ", int " HOSTED_ATTR_COUNT ", str[] **attributes";
  add(d, "%s(Tensor[] inputs, *, %s) -> Tensor[" HOSTED_ATTR_COUNT "] outputs", op->name,
      attributes);
  text_item(d, TENON_TAG_OP);
  add_doc(d, op, " of subgraphs");
  item(d, (tenon_item_t)TENON_TYPES("inputs, outputs = ?"));
  item(d, (tenon_item_t)TENON_BODY(HOSTED_ATTR_GRAPH));
  item(d, (tenon_item_t)TENON_INFER(infer_subgraph));
  add_common(d);
  add(d,
      "inputs: _backward_%s(grad.outputs, inputs, outputs, @state, " HOSTED_ATTR_GRAPH
      "=" HOSTED_ATTR_GRAPH ", " HOSTED_ATTR_COUNT "=" HOSTED_ATTR_COUNT ", attributes=attributes)",
      op->name);
  text_item(d, TENON_TAG_GRADIENT);
  add_kernels(d, &op->forward, &op->create, run_forward);
  add_list_backward(d, op, "", attributes);
}

static void add_list(description_t *d, const hosted_op_t *op) {
  const char *overload = op->in_count < 0 ? "" : ".list";
  add(d, "%s%s(Tensor[] inputs, *, str[] **attributes) -> Tensor[] outputs", op->name, overload);
  text_item(d, TENON_TAG_OP);
  add_doc(d, op, " for any number of inputs");
  item(d, (tenon_item_t)TENON_TYPES("inputs, outputs = ?"));
  item(d, (tenon_item_t)TENON_INFER(infer_forward));
  add_common(d);
  if (has_backward(op)) {
    add(d, "inputs: _backward_%s%s(grad.outputs, inputs, outputs%s, attributes=attributes)",
        op->name, overload, state_of(op));
    text_item(d, TENON_TAG_GRADIENT);
  }
  add_kernels(d, &op->forward, &op->create, run_forward);
  if (has_backward(op)) add_list_backward(d, op, overload, "str[] **attributes");
}

static void add_backward_names(description_t *d, const hosted_op_t *op, const char *word) {
  add_names(d, word, "gradient", op->out_count, 0);
  add(d, ", ");
  add_names(d, word, "input", op->in_count, 0);
  add(d, ", ");
  add_names(d, word, "output", op->out_count, 0);
}

static void add_backward(description_t *d, const hosted_op_t *op) {
  const int in = op->in_count;
  add(d, "_backward_%s(", op->name);
  add_backward_names(d, op, "Tensor");
  add(d, ", *, str[] **attributes) -> (");
  add_names(d, "Tensor", "result", in, 0);
  add(d, ")");
  text_item(d, TENON_TAG_OP);
  add(d, "Gradient of %s.", op->name);
  text_item(d, TENON_TAG_DOC);
  add_backward_names(d, op, "");
  add(d, ", ");
  add_names(d, "", "result", in, 0);
  add(d, " = ?");
  text_item(d, TENON_TAG_TYPES);
  item(d, (tenon_item_t)TENON_INFER(infer_backward));
  add_backward_names(d, op, "");
  add(d, ": error");
  text_item(d, TENON_TAG_GRADIENT);
  add_common(d);
  add_kernels(d, &op->backward, &op->create, run_backward);
}

static void add_fixed(description_t *d, const hosted_op_t *op) {
  const int in = op->in_count;
  const int out = op->out_count;
  const bool has_gradient = has_backward(op) && in && out && 2 * out + in <= ARGUMENTS_MOST;
  add(d, "%s(", op->name);
  add_names(d, "Tensor", "input", in, op->written);
  add(d, "%s*, str[] **attributes) -> (", in ? ", " : "");
  add_names(d, "Tensor", "output", out, 0);
  add(d, ")");
  text_item(d, TENON_TAG_OP);
  add_doc(d, op, "");
  add_names(d, "", "input", in, 0);
  add(d, in && out ? ", " : "");
  add_names(d, "", "output", out, 0);
  if (in || out) {
    add(d, " = ?");
    text_item(d, TENON_TAG_TYPES);
  }
  item(d, (tenon_item_t)TENON_INFER(infer_forward));
  add_common(d);
  if (has_gradient) {
    add_names(d, "", "input", in, 0);
    add(d, ": _backward_%s(", op->name);
    add_names(d, "", "grad.output", out, 0);
    add(d, ", ");
    add_names(d, "", "input", in, 0);
    add(d, ", ");
    add_names(d, "", "output", out, 0);
    add(d, "%s, attributes=attributes)", state_of(op));
    text_item(d, TENON_TAG_GRADIENT);
  }
  add_kernels(d, &op->forward, &op->create, run_forward);
  if (has_gradient) add_backward(d, op);
}

/* properties of an operator that is called without attributes */

typedef struct asked_t {
  const hosted_op_t *op;
  int in_count;
  int out_count;
  int *which;
  int which_count;
} asked_t;

static int parse(void *argument) {
  asked_t *a = argument;
  return a->op->library->abi._opCallParseAttrs(a->op->parse, NULL, NULL, 0, &a->in_count,
                                               &a->out_count);
}

static int mutates(void *argument) {
  asked_t *a = argument;
  return a->op->library->abi._opCallMutateInputs(a->op->mutates, NULL, NULL, 0, &a->which,
                                                 &a->which_count);
}

/* An operator that requires attributes fails here. The messages of this failure are discarded. */
static void count_arguments(hosted_op_t *op) {
  asked_t asked = {.op = op, .in_count = -1, .out_count = -1};
  char why[WHY] = "";
  char ignored[WHY] = "";
  if (op->is_subgraph || guard_call(parse, &asked, why, sizeof why) <= 0) asked.in_count = -1;
  if (asked.in_count > 0 && op->mutates) {
    if (guard_call(mutates, &asked, why, sizeof why) <= 0) asked.in_count = -1;
    for (int i = 0; i < asked.which_count && asked.in_count > 0; i++) {
      if (asked.which[i] < 0 || asked.which[i] >= asked.in_count || asked.which[i] >= 52)
        asked.in_count = -1;
      else
        op->written |= (uint64_t)1 << asked.which[i];
    }
    if (asked.which) op->library->abi._opCallFree(asked.which);
  }
  hosted_messages(op->library, ignored, sizeof ignored);
  if (asked.in_count < 0 || asked.out_count < 0 || asked.in_count > ARGUMENTS_MOST ||
      asked.out_count > ARGUMENTS_MOST)
    return;
  op->in_count = asked.in_count;
  op->out_count = asked.out_count;
}

bool hosted_describe(hosted_t *l, char *why, size_t capacity) {
  static const char *const systems[] = {[7] = "1.7", [10] = "1.8", [11] = "1.9 or 2.0"};
  description_t d = {.library = l};
  l->items = calloc(((size_t)(l->op_count + 1) * 2 * ITEMS_AN_OP +
                     (size_t)(l->pass_count + l->partitioner_count)),
                    sizeof *l->items);
  if (!l->items) {
    snprintf(why, capacity, "out of memory");
    return false;
  }
  add(&d, "library of MXNet %s, interface %d", systems[l->version], l->version);
  text_item(&d, TENON_TAG_ABOUT);
  for (int i = 0; i < l->pass_count; i++)
    item(&d, (tenon_item_t)TENON_PASS(&l->passes[i].table));
  for (int i = 0; i < l->partitioner_count; i++)
    item(&d, (tenon_item_t)TENON_PARTITIONER(&l->partitioners[i].table));
  for (int i = 0; i < l->op_count; i++) {
    count_arguments(&l->ops[i]);
    if (l->ops[i].in_count >= 0) add_fixed(&d, &l->ops[i]);
    if (l->ops[i].is_subgraph)
      add_subgraph(&d, &l->ops[i]);
    else
      add_list(&d, &l->ops[i]);
  }
  snprintf(l->version_text, sizeof l->version_text, "%d", l->version);
  l->descriptor = (tenon_descriptor_t){sizeof l->descriptor, TENON_ABI, TENON_LAYOUT, 0, l->ns,
                                       l->version_text,      l->items};
  free(d.text.text);
  return !d.text.failed || (snprintf(why, capacity, "out of memory"), false);
}
