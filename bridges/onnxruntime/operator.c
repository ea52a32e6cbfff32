/* Reads the operators of a library, and finds the overload for a call. What the library states
 * about an operator is read once, when it is loaded, and checked. */
#include "operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/ort_element.h"
#include "status.h"

/* names */

enum { NAME_MOST = 120 }; /* the length of a name */

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Appends a part of a name. Characters that names cannot have become '_'. */
static char *add_part(char *at, const char *part) {
  if (is_digit(*part)) *at++ = '_';
  for (; *part; part++)
    *at++ = is_letter(*part) || is_digit(*part) ? *part : '_';
  return at;
}

/* Makes the name of an operator as the import of models makes it. */
static char *make_operator_name(const char *ns, const char *domain, const char *type) {
  const char *space = *domain ? domain : ns;
  char *name = malloc(strlen(space) + strlen(type) + 5);
  if (!name) return NULL;
  char *at = add_part(name, space);
  *at++ = ':';
  *at++ = ':';
  at = add_part(at, type);
  *at = 0;
  return name;
}

/* what an overload states */

typedef struct reading_t { /* one OrtCustomOp that is being read */
  operator_t *op;
  overload_t overload;
  const OrtCustomOp *of;
  size_t in_count;
  size_t out_count;
  uint8_t in_kinds[ARGUMENTS_MOST];
  uint8_t out_kinds[ARGUMENTS_MOST];
  int in_least;
  int out_least;
  const char *provider;
  char why[WHY];
} reading_t;

static bool has_functions(reading_t *r) {
  const OrtCustomOp *of = r->of;
  const bool has_status = r->overload.version >= SINCE_STATUS;
  const struct {
    const char *name;
    bool is_there;
  } needed[] = {{"GetInputType", of->GetInputType},
                {"GetInputTypeCount", of->GetInputTypeCount},
                {"GetOutputType", of->GetOutputType},
                {"GetOutputTypeCount", of->GetOutputTypeCount},
                {"CreateKernel", of->CreateKernel || (has_status && of->CreateKernelV2)},
                {"KernelCompute", of->KernelCompute || (has_status && of->KernelComputeV2)},
                {"KernelDestroy", of->KernelDestroy}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!needed[i].is_there) {
      snprintf(r->why, sizeof r->why, "it has no function %s", needed[i].name);
      return false;
    }
  return true;
}

/* Reads the characteristics of one side, and checks that only the last argument is variadic. */
static bool read_kinds(reading_t *r, size_t count, uint8_t *kinds, const char *side,
                       ort_characteristic_t (*get)(const OrtCustomOp *, size_t)) {
  for (size_t i = 0; i < count; i++) {
    ort_characteristic_t kind = ORT_REQUIRED;
    if (r->overload.version >= SINCE_CHARACTERISTICS && get) kind = get(r->of, i);
    if ((int)kind < ORT_REQUIRED || (int)kind > ORT_VARIADIC ||
        (kind == ORT_VARIADIC && i + 1 < count)) {
      snprintf(r->why, sizeof r->why,
               kind == ORT_VARIADIC ? "%s %zu is variadic, but it is not the last one"
                                    : "%s %zu has an unknown characteristic",
               side, i);
      return false;
    }
    kinds[i] = (uint8_t)kind;
  }
  return true;
}

static bool read_elements(reading_t *r, size_t count, uint8_t *elements, const char *side,
                          ort_element_t (*get)(const OrtCustomOp *, size_t)) {
  for (size_t i = 0; i < count; i++) {
    const ort_element_t element = get(r->of, i);
    if ((int)element < 0 || (int)element >= ORT_ELEMENT_COUNT) {
      snprintf(r->why, sizeof r->why, "%s %zu has element type %d, which does not exist", side, i,
               (int)element);
      return false;
    }
    elements[i] = (uint8_t)element;
  }
  return true;
}

static bool read_counts(reading_t *r) {
  r->in_count = r->of->GetInputTypeCount(r->of);
  r->out_count = r->of->GetOutputTypeCount(r->of);
  if (r->in_count <= ARGUMENTS_MOST && r->out_count <= ARGUMENTS_MOST && r->out_count) return true;
  snprintf(r->why, sizeof r->why,
           "it has %zu inputs and %zu outputs: expected at most %d inputs, "
           "and 1 to %d outputs",
           r->in_count, r->out_count, ARGUMENTS_MOST, ARGUMENTS_MOST);
  return false;
}

static void read_versions(reading_t *r) {
  const bool has_range = r->overload.version >= SINCE_SHAPES;
  r->overload.since = 1;
  r->overload.until = ORT_OP_UNBOUNDED;
  if (has_range && r->of->GetStartVersion) r->overload.since = r->of->GetStartVersion(r->of);
  if (has_range && r->of->GetEndVersion) r->overload.until = r->of->GetEndVersion(r->of);
}

static void read_least(reading_t *r) {
  const OrtCustomOp *of = r->of;
  const bool has_least = r->overload.version >= SINCE_VARIADIC;
  r->in_least = r->out_least = 1;
  if (has_least && of->GetVariadicInputMinArity) r->in_least = of->GetVariadicInputMinArity(of);
  if (has_least && of->GetVariadicOutputMinArity) r->out_least = of->GetVariadicOutputMinArity(of);
}

/* Reads which outputs must be the memory of an input. */
static bool read_aliases(reading_t *r) {
  const OrtCustomOp *of = r->of;
  int *inputs = NULL;
  int *outputs = NULL;
  if (r->overload.version < SINCE_ALIASES || !of->GetAliasMap) return true;
  const size_t count = of->GetAliasMap(&inputs, &outputs);
  bool good = true;
  for (size_t i = 0; i < count && good; i++) {
    good = inputs[i] >= 0 && (size_t)inputs[i] < r->in_count && outputs[i] >= 0 &&
           (size_t)outputs[i] < r->out_count;
    if (good) r->overload.aliases[outputs[i]] = (uint8_t)(inputs[i] + 1);
  }
  r->overload.has_aliases = count > 0;
  if (of->ReleaseAliasMap) of->ReleaseAliasMap(inputs, outputs);
  if (!good)
    snprintf(r->why, sizeof r->why, "its alias map names an input or an output that it lacks");
  return good;
}

/* Called through guard_call, because the functions of the library may throw. */
static int read_overload(void *argument) {
  reading_t *r = argument;
  const OrtCustomOp *of = r->of;
  if (!has_functions(r) || !read_counts(r)) return 0;
  if (of->GetExecutionProviderType) r->provider = of->GetExecutionProviderType(of);
  read_versions(r);
  read_least(r);
  return read_kinds(r, r->in_count, r->in_kinds, "input", of->GetInputCharacteristic) &&
         read_kinds(r, r->out_count, r->out_kinds, "output", of->GetOutputCharacteristic) &&
         read_elements(r, r->in_count, r->overload.inputs, "input", of->GetInputType) &&
         read_elements(r, r->out_count, r->overload.outputs, "output", of->GetOutputType) &&
         read_aliases(r);
}

/* operators */

static int read_type(void *argument) {
  reading_t *r = argument;
  r->provider = r->of->GetName ? r->of->GetName(r->of) : NULL;
  return 1;
}

static operator_t *find_or_add(library_t *library, const char *domain, const char *type, char *why,
                               size_t capacity) {
  char *name = make_operator_name(library->ns, domain, type);
  operator_t *op = library->ops;
  operator_t *end = op + library->op_count;
  while (name && op < end && strcmp(op->name, name) != 0)
    op++;
  if (name && op < end) {
    free(name);
    if (strcmp(op->type, type) == 0) return op;
    snprintf(why, capacity, "operators '%.100s' and '%.100s' have one name, %s", op->type, type,
             op->name);
    return NULL;
  }
  if (!name) {
    snprintf(why, capacity, "out of memory");
    return NULL;
  }
  library->op_count++;
  *op = (operator_t){.library = library, .domain = domain, .name = name, .type = type};
  return op;
}

static bool fits_operator(const reading_t *r) {
  const operator_t *op = r->op;
  return op->in_count == r->in_count && op->out_count == r->out_count &&
         memcmp(op->in_kinds, r->in_kinds, r->in_count) == 0 &&
         memcmp(op->out_kinds, r->out_kinds, r->out_count) == 0;
}

static bool add_overload(reading_t *r) {
  operator_t *op = r->op;
  if (!op->overload_count) {
    op->in_count = r->in_count;
    op->out_count = r->out_count;
    memcpy(op->in_kinds, r->in_kinds, sizeof op->in_kinds);
    memcpy(op->out_kinds, r->out_kinds, sizeof op->out_kinds);
    op->in_least = r->in_least;
    op->out_least = r->out_least;
    op->since = r->overload.since;
    op->has_input_list = r->in_count && r->in_kinds[r->in_count - 1] == ORT_VARIADIC;
    op->has_output_list = r->out_kinds[r->out_count - 1] == ORT_VARIADIC;
  } else if (!fits_operator(r)) {
    snprintf(r->why, sizeof r->why,
             "its overloads differ in the number or the characteristics of inputs or outputs");
    return false;
  }
  /* The operator has the version of the overload that was registered first, as in ONNX Runtime,
   * which never calls overloads for other versions. */
  if (op->since < r->overload.since || op->since > r->overload.until) return true;
  overload_t *grown = realloc(op->overloads, (op->overload_count + 1) * sizeof *grown);
  if (!grown) {
    snprintf(r->why, sizeof r->why, "out of memory");
    return false;
  }
  op->overloads = grown;
  op->overloads[op->overload_count++] = r->overload;
  return true;
}

static bool is_for_cpu(const char *provider) {
  return !provider || strcmp(provider, "CPUExecutionProvider") == 0;
}

static bool read_custom_op(library_t *library, const char *domain, const OrtCustomOp *of, char *why,
                           size_t capacity) {
  reading_t r = {.of = of};
  char thrown[WHY / 2] = "";
  if (guard_call(read_type, &r, thrown, sizeof thrown) < 0) {
    snprintf(why, capacity, "the name of an operator of domain '%.100s': %s", domain, thrown);
    return false;
  }
  if (!r.provider || !*r.provider || strlen(r.provider) > NAME_MOST) {
    snprintf(why, capacity,
             "an operator of domain '%.100s' has the name '%.100s': expected 1 to %d characters",
             domain, r.provider ? r.provider : "NULL", NAME_MOST);
    return false;
  }
  if (!(r.op = find_or_add(library, domain, r.provider, why, capacity))) return false;
  r.provider = NULL;
  /* The fields after this version are not the library's, even if they are there. */
  r.overload.op = of;
  r.overload.version = of->version;
  if (!of->version) {
    snprintf(why, capacity, "operator %s has version 0: expected 1 to %d", r.op->name,
             ORT_VERSION_NEWEST);
    return false;
  }
  const int result = guard_call(read_overload, &r, thrown, sizeof thrown);
  if (result < 0) snprintf(r.why, sizeof r.why, "%s", thrown);
  /* Overloads for other devices are left out. */
  if (result > 0 && (!is_for_cpu(r.provider) || add_overload(&r))) return true;
  snprintf(why, capacity, "operator %s: %s", r.op->name, r.why);
  return false;
}

/* Removes operators that have no overload for the CPU. */
static void remove_empty(library_t *library) {
  size_t kept = 0;
  for (size_t i = 0; i < library->op_count; i++) {
    if (library->ops[i].overload_count)
      library->ops[kept++] = library->ops[i];
    else
      free(library->ops[i].name);
  }
  library->op_count = kept;
}

bool operators_read(library_t *library, char *why, size_t capacity) {
  const OrtSessionOptions *options = &library->options;
  size_t most = 0;
  for (size_t d = 0; d < options->count; d++)
    most += options->domains[d]->count;
  if (!(library->ops = calloc(most + 1, sizeof *library->ops))) {
    snprintf(why, capacity, "out of memory");
    return false;
  }
  for (size_t d = 0; d < options->count; d++)
    for (size_t i = 0; i < options->domains[d]->count; i++)
      if (!read_custom_op(library, options->domains[d]->name, options->domains[d]->ops[i], why,
                          capacity))
        return false;
  remove_empty(library);
  if (library->op_count || !most) return true;
  snprintf(why, capacity,
           "all %zu operators are for other devices than the CPU, which Tenon does not support in "
           "libraries of ONNX Runtime",
           most);
  return false;
}

void operators_free(library_t *library) {
  for (size_t i = 0; library->ops && i < library->op_count; i++) {
    free(library->ops[i].overloads);
    free(library->ops[i].name);
  }
  free(library->ops);
}

const operator_t *operator_find(const library_t *library, const tenon_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  for (size_t i = 0; i < library->op_count; i++)
    if (strcmp(library->ops[i].name, info.name) == 0) return &library->ops[i];
  return NULL;
}

/* choosing */

static bool serves_call(const operator_t *op, const overload_t *overload, const uint8_t *elements,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    const uint8_t wanted = overload->inputs[i < op->in_count ? i : op->in_count - 1];
    if (elements[i] && wanted && wanted != elements[i]) return false;
  }
  return true;
}

const overload_t *operator_choose(const operator_t *op, const uint8_t *elements, size_t count) {
  for (size_t i = 0; i < op->overload_count; i++)
    if (serves_call(op, &op->overloads[i], elements, count)) return &op->overloads[i];
  return NULL;
}

static size_t add_elements(char *why, size_t capacity, size_t used, const uint8_t *elements,
                           size_t count) {
  for (size_t i = 0; i < count && used < capacity; i++)
    used += (size_t)snprintf(why + used, capacity - used, "%s%s", i ? ", " : "(",
                             element_name((ort_element_t)elements[i]));
  if (used < capacity) used += (size_t)snprintf(why + used, capacity - used, count ? ")" : "()");
  return used;
}

void operator_explain(const operator_t *op, const uint8_t *elements, size_t count, char *why,
                      size_t capacity) {
  size_t used = (size_t)snprintf(why, capacity, "no kernel takes ");
  used = add_elements(why, capacity, used, elements, count);
  for (size_t i = 0; i < op->overload_count && used < capacity; i++) {
    const char *separator = i ? ", " : "; the library has kernels for ";
    used += (size_t)snprintf(why + used, capacity - used, "%s", separator);
    used = add_elements(why, capacity, used, op->overloads[i].inputs, op->in_count);
  }
}
