/* Kernels of TensorFlow: registers the rows of the table, and makes one kernel for each node. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto.h"
#include "run.h"
#include "variable.h"

enum { PLANS_MOST = PLUGIN_ROWS_MOST };
enum { NODE_OP = 2 }; /* a field of a serialized NodeDef */

static plan_t *plans[PLANS_MOST]; /* by row; NULL: Tenon has no such operator. Never freed. */
static bool is_parsed;

/* ---- what a device has ----------------------------------------------------------------------- */

static bool has_word(const char *text, const char *word) {
  const size_t size = strlen(word);
  for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
    const bool begins = at == text || at[-1] == ' ';
    if (begins && strchr(" ,;", at[size])) return true;
  }
  return false;
}

/* Does the description of a kernel name dtypes? */
static bool names_dtypes(const char *text) {
  static const char *const names[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16",
                                      "i8",  "u8",  "u16", "u32",  "u64", "bool"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (has_word(text, names[i])) return true;
  return false;
}

bool has_kernel(const platform_t *platform, const tenon_op_t *op, const char *dtype) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_slot_info_t slot = {.size = sizeof slot};
  bool is_found = false;
  tenon_op_info(op, &info);
  if (tenon_op_slot(op, platform->backend, &slot) != TENON_OK || slot.is_missing) return false;
  if (info.kernel_count == 0) return true; /* a view */
  if (!strcmp(slot.rule, "fallback")) return false;
  for (int32_t i = 0; i < info.kernel_count && !is_found; i++) {
    char *text = tenon_op_kernel(op, i);
    const bool serves = text && (has_word(text, "source") || has_word(text, platform->backend) ||
                                 has_word(text, "composite") || has_word(text, "any") ||
                                 has_word(text, "anywhere"));
    is_found = serves && (!names_dtypes(text) || has_word(text, dtype));
    free(text);
  }
  return is_found;
}

/* Returns the operator that a node needs on the device, or NULL. */
static const tenon_op_t *needed_op(const node_t *node) {
  const tenon_op_t *op = node->op;
  const char *name = node->kind == NODE_FUNCTION ? function_needs(node->function) : NULL;
  if (name && tenon_op_find(name, &op) != TENON_OK) return NULL;
  return op;
}

/* Has the device all kernels of a plan for this dtype? NULL: for bool, or for f32, to which a
 * formula casts. */
static bool serves_plan(const platform_t *platform, const plan_t *plan, const char *dtype) {
  for (int32_t i = 0; i < plan->node_count; i++) {
    const tenon_op_t *op = needed_op(&plan->nodes[i]);
    if (!op || (dtype && has_kernel(platform, op, dtype))) continue;
    if (dtype || (!has_kernel(platform, op, "bool") && !has_kernel(platform, op, "f32")))
      return false;
  }
  return true;
}

/* ---- making a kernel ------------------------------------------------------------------------- */

static const plan_t *find_plan(tf_construction_t *construction, tf_status_t *status) {
  char name[100];
  proto_text_t text = {"", 0};
  tf_buffer_t *node = tf.TF_OpKernelConstruction_GetNodeDef(construction, status);
  if (tf.TF_GetCode(status) != TF_OK) return NULL;
  (void)proto_find(node->data, node->size, NODE_OP, &text);
  snprintf(name, sizeof name, "%.*s", (int)(text.size < sizeof name ? text.size : 0), text.data);
  tf.TF_DeleteBuffer(node);
  for (int32_t i = 0; i < PLANS_MOST; i++)
    if (plans[i] && !strcmp(plans[i]->row->op, name)) return plans[i];
  tf.TF_SetStatus(status, TF_INTERNAL, "a node has an operator that Tenon did not register");
  return NULL;
}

static void read_int_list(tf_construction_t *construction, const char *name, value_t *out,
                          tf_status_t *status) {
  int32_t count = 0;
  int32_t total = 0;
  out->kind = VALUE_INTS;
  tf.TF_OpKernelConstruction_GetAttrSize(construction, name, &count, &total, status);
  if (tf.TF_GetCode(status) != TF_OK) return;
  if (count < 0 || count > PLAN_LIST_MOST) {
    tf.TF_SetStatus(status, TF_UNIMPLEMENTED, "a list of an attribute has too many entries");
    return;
  }
  out->count = count;
  if (count > 0)
    tf.TF_OpKernelConstruction_GetAttrInt64List(construction, name, out->ints, count, status);
}

static void read_dtype(tf_construction_t *construction, const char *name, value_t *out,
                       tf_status_t *status) {
  int dtype = 0;
  out->kind = VALUE_DTYPE;
  tf.TF_OpKernelConstruction_GetAttrType(construction, name, &dtype, status);
  if (tf.TF_GetCode(status) == TF_OK && !dtype_from_tf(dtype, &out->dtype))
    tf.TF_SetStatus(status, TF_UNIMPLEMENTED, "Tenon has no such dtype");
}

static void read_attribute(tf_construction_t *construction, const plan_attribute_t *attribute,
                           value_t *out, tf_status_t *status) {
  unsigned char flag = 0;
  float real = 0;
  *out = (value_t){.kind = VALUE_NUMBER};
  switch (attribute->kind) {
  case 'b':
    tf.TF_OpKernelConstruction_GetAttrBool(construction, attribute->name, &flag, status);
    out->number = flag;
    return;
  case 'i':
    tf.TF_OpKernelConstruction_GetAttrInt64(construction, attribute->name, &out->number, status);
    return;
  case 'f':
    tf.TF_OpKernelConstruction_GetAttrFloat(construction, attribute->name, &real, status);
    out->kind = VALUE_REAL;
    out->real = (double)real;
    return;
  case 's':
    tf.TF_OpKernelConstruction_GetAttrString(construction, attribute->name, out->text,
                                             sizeof out->text - 1, status);
    out->kind = VALUE_TEXT;
    return;
  case 'l':
    read_int_list(construction, attribute->name, out, status);
    return;
  default:
    read_dtype(construction, attribute->name, out, status);
  }
}

static void *create_kernel(tf_construction_t *construction) {
  tf_status_t *status = tf.TF_NewStatus();
  kernel_t *kernel = calloc(1, sizeof *kernel);
  if (!kernel) tf.TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory: a kernel");
  if (kernel) kernel->plan = find_plan(construction, status);
  const plan_t *plan = kernel ? kernel->plan : NULL;
  if (kernel) kernel->dtype = tenon_dtype(TENON_F32);
  for (int32_t i = 0; plan && i < plan->attribute_count && tf.TF_GetCode(status) == TF_OK; i++) {
    read_attribute(construction, &plan->attributes[i], &kernel->attributes[i], status);
    const size_t size = strcspn(plan->row->types, "=");
    const bool is_main = strlen(plan->attributes[i].name) == size &&
                         !strncmp(plan->row->types, plan->attributes[i].name, size);
    if (is_main && plan->attributes[i].kind == 't') kernel->dtype = kernel->attributes[i].dtype;
  }
  if (tf.TF_GetCode(status) != TF_OK) {
    tf.TF_OpKernelConstruction_Failure(construction, status);
    free(kernel);
    kernel = NULL;
  }
  tf.TF_DeleteStatus(status);
  return kernel;
}

static void compute_kernel(void *kernel, tf_context_t *context) {
  if (kernel) run_kernel(kernel, context);
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Appends a line to the counts. Returns the size of the text, which is cut at the capacity. */
static size_t append_count(const platform_t *platform, const char *op, uint64_t runs, char *out,
                           size_t used, size_t capacity) {
  if (runs == 0 || used >= capacity) return used;
  const int written = snprintf(out + used, capacity - used, "%s %s %llu\n", platform->type, op,
                               (unsigned long long)runs);
  return used + (written > 0 ? (size_t)written : 0);
}

size_t write_counts(const platform_t *platform, char *out, size_t capacity) {
  size_t used = 0;
  for (int32_t i = 0; i < PLANS_MOST; i++)
    if (plans[i])
      used = append_count(platform, plans[i]->row->op, platform->runs[i], out, used, capacity);
  for (int32_t i = 0; i < PLUGIN_OWN_MOST; i++)
    used =
        append_count(platform, platform->own_names[i], platform->own_runs[i], out, used, capacity);
  return used < capacity ? used : capacity - 1;
}

static void delete_kernel(void *kernel) { free(kernel); }

/* ---- registration ---------------------------------------------------------------------------- */

static int dtype_of_letter(char letter) {
  static const struct {
    char letter;
    int dtype;
  } letters[] = {{'F', TF_FLOAT}, {'D', TF_DOUBLE}, {'H', TF_HALF}, {'B', TF_BFLOAT16},
                 {'L', TF_INT64}, {'I', TF_INT32},  {'O', TF_BOOL}};
  for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
    if (letters[i].letter == letter) return letters[i].dtype;
  return 0;
}

static tenon_status_t register_plan(const platform_t *platform, const plan_t *plan,
                                    kernel_place_t *place) {
  static const kernel_functions_t functions = {create_kernel, compute_kernel, delete_kernel};
  place->op = plan->row->op;
  place->host_count = 0;
  for (int32_t i = 0; i < plan->input_count; i++)
    if (plan->inputs[i].is_host || plan->inputs[i].is_variable)
      place->hosts[place->host_count++] = plan->inputs[i].name;
  return register_builder(platform, &functions, place);
}

/* Registers a plan for all combinations of dtypes from the entry `types` of the row on. */
static tenon_status_t register_types(const platform_t *platform, const plan_t *plan,
                                     const char *types, kernel_place_t *place) {
  char attribute[PLAN_NAME_SIZE];
  tenon_status_t status = TENON_OK;
  tenon_dtype_t dtype;
  while (*types == ' ')
    types++;
  const size_t size = strcspn(types, "=");
  if (!types[size]) return register_plan(platform, plan, place);
  snprintf(attribute, sizeof attribute, "%.*s", (int)size, types);
  const char *letter = types + size + 1;
  const char *rest = letter + strcspn(letter, " ");
  const int32_t at = place->constraint_count++;
  for (; letter < rest && status == TENON_OK; letter++) {
    place->constraints[at] = (kernel_constraint_t){attribute, dtype_of_letter(*letter)};
    if (!dtype_from_tf(place->constraints[at].dtype, &dtype)) continue;
    if (at == 0 && !serves_plan(platform, plan, tenon_dtype_name(dtype))) continue;
    status = register_types(platform, plan, rest, place);
  }
  place->constraint_count = at;
  return status;
}

/* Parses all rows. A row whose operators Tenon lacks is left out. */
static tenon_status_t parse_rows(void) {
  int32_t count = 0;
  const row_t *rows = plan_rows(&count);
  for (int32_t i = 0; i < count && i < PLANS_MOST; i++) {
    const tenon_status_t status = plan_parse(&rows[i], &plans[i]);
    if (status != TENON_OK && status != TENON_NOT_FOUND) return status;
    if (plans[i]) plans[i]->index = i;
  }
  is_parsed = true;
  return TENON_OK;
}

tenon_status_t register_kernels(platform_t *platform) {
  tenon_status_t status = is_parsed ? TENON_OK : parse_rows();
  for (int32_t i = 0; i < PLANS_MOST && status == TENON_OK; i++) {
    kernel_place_t place = {.constraint_count = 0};
    if (!plans[i]) continue;
    if (!*plans[i]->row->types && !serves_plan(platform, plans[i], NULL)) continue;
    status = register_types(platform, plans[i], plans[i]->row->types, &place);
  }
  return status == TENON_OK ? register_variables(platform) : status;
}
