/* Turns a function's metadata and the caller's declaration into a schema and a list of arguments;
 * see declare.h. */
#include "declare.h"

#include <string.h>

#include "base/status.h"

/* Every dtype except strings, whose elements no function of tvm-ffi reads. */
#define DTYPES                                                                                     \
  "bool|number|complex|i2|i4|u2|u4|f8e3m4|f8e4m3|f8e4m3b11fnuz|f8e4m3fn|f8e4m3fnuz|f8e5m2|"        \
  "f8e5m2fnuz|f8e8m0|f6e2m3|f6e3m2|f4e2m1"

static char *keep_declared(declaration_t *d, tn_text_t *text) {
  char *kept = text->failed ? NULL : tn_arena_text(d->arena, tn_text_get(text), text->size);
  tn_text_clear(text);
  if (!kept) (void)tn_no_memory("the declaration of a function", 0);
  return kept;
}

/* the schema that follows from metadata */

static tenon_status_t compose_argument(tn_text_t *text, const type_t *type, uint32_t index,
                                       uint32_t *written) {
  const char *word = metadata_word(type);
  if (!word) return tn_fail(TENON_UNIMPLEMENTED, "argument %u is a %s", index, type->name);
  const bool is_tensor = strncmp(word, "Tensor", 6) == 0;
  tn_text_add(text, "%s", index ? ", " : "");
  if (is_tensor && written) { /* "Tensor(a!)[]" */
    const uint32_t letter = (*written)++;
    if (letter >= 52) return tn_fail(TENON_UNIMPLEMENTED, "it has more than 52 tensors");
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    tn_text_add(text, "Tensor(%c!)%s", letters[letter], word + 6);
  } else {
    tn_text_add(text, "%s", word);
  }
  tn_text_add(text, "%s arg%u", type->is_optional ? "?" : "", index);
  return TENON_OK;
}

static tenon_status_t compose_results(tn_text_t *text, const signature_t *signature) {
  tn_text_add(text, ") -> (");
  for (uint32_t i = 0; i < signature->result_count; i++) {
    const type_t *type = &signature->results[i];
    const char *word = metadata_word(type);
    if (!word || type->is_list || type->is_optional || type->kind == TYPE_DTYPE ||
        type->kind == TYPE_DEVICE)
      return tn_fail(TENON_UNIMPLEMENTED, "it returns a %s", type->name);
    const char *place = type->kind == TYPE_TENSOR ? "" : " @host";
    tn_text_add(text, "%sTensor%s out", i ? ", " : "", place);
    if (signature->result_count > 1) tn_text_add(text, "%u", i);
  }
  tn_text_add(text, ")");
  return TENON_OK;
}

/* A function without results has its effect through its tensors, so all of them count as written
 * to. */
static tenon_status_t compose_schema(const signature_t *signature, const char *name,
                                     tn_text_t *text) {
  uint32_t written = 0;
  tn_text_add(text, "%s(", name);
  for (uint32_t i = 0; i < signature->argument_count; i++)
    TENON_TRY(compose_argument(text, &signature->arguments[i], i,
                               signature->result_count ? NULL : &written));
  return compose_results(text, signature);
}

static tenon_status_t parse_schema(declaration_t *d, const char *ns) {
  const char *text = d->declared->schema;
  if (!text) {
    tn_text_t composed = {0};
    tenon_status_t status = compose_schema(d->signature, d->declared->name, &composed);
    text = keep_declared(d, &composed);
    if (status != TENON_OK) return status;
    if (!text) return TENON_MEMORY;
  }
  return tn_schema_parse(text, ns, d->arena, &d->schema);
}

static tenon_status_t check_schema(const declaration_t *d) {
  const tn_schema_t *schema = &d->schema;
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    const tn_argument_t *attr = &schema->attrs[i];
    if (attr->kind == TENON_KIND_CHOICE || attr->kind == TENON_KIND_GRAPH || attr->is_open ||
        attr->kind == TENON_KIND_TENSOR || attr->kind == TENON_KIND_TENSORS)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "attribute '%s': expected bool, int, float, str, dtype, device or a list of "
                     "int, float or str",
                     attr->name);
  }
  for (uint32_t i = 0; i < schema->output_count; i++)
    if (schema->outputs[i].kind == TENON_KIND_TENSORS || schema->outputs[i].is_optional ||
        schema->outputs[i].mark)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "result '%s': expected a plain tensor: declare each as a result of its own",
                     schema->outputs[i].name);
  return TENON_OK;
}

/* how arguments are passed */

static bool is_passed_list(const tn_argument_t *argument) {
  return argument->kind == TENON_KIND_TENSORS || argument->kind == TENON_KIND_INTS ||
         argument->kind == TENON_KIND_DIMS || argument->kind == TENON_KIND_FLOATS ||
         argument->kind == TENON_KIND_STRS;
}

static tenon_status_t pass_argument(function_t *f, const tn_argument_t *argument, bool is_output,
                                    bool is_owned) {
  pass_t pass = PASS_ATTR;
  if (f->argument_count == ARGUMENTS_MOST)
    return tn_fail(TENON_INVALID, "it has more than %d arguments", ARGUMENTS_MOST);
  if (argument->is_tensor) {
    pass = is_output ? PASS_OUTPUT : PASS_INPUT;
    if (is_owned) pass = is_output ? PASS_OUTPUT_OBJECT : PASS_INPUT_OBJECT;
    if (argument->kind == TENON_KIND_TENSORS) pass = PASS_INPUTS;
  }
  f->has_objects |= is_owned || is_passed_list(argument);
  f->arguments[f->argument_count++] =
      (argument_t){.pass = (uint8_t)pass, .index = (uint8_t)argument->index};
  return TENON_OK;
}

static const tn_argument_t *find_argument(const tn_schema_t *schema, const char *name, size_t size,
                                          bool *is_output) {
  int32_t at = tn_schema_input(schema, name, size);
  *is_output = false;
  if (at >= 0) return &schema->inputs[at];
  at = tn_schema_attr(schema, name, size);
  if (at >= 0) return &schema->attrs[at];
  at = tn_schema_output(schema, name, size);
  *is_output = true;
  return at >= 0 ? &schema->outputs[at] : NULL;
}

static size_t skip_word(const char *at) {
  return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* Reads the list of arguments: "out, owned x". */
static tenon_status_t read_argument_order(const declaration_t *d, const char *text, function_t *f) {
  static const char *const spaces = " \t\n";
  const char *at = text + strspn(text, spaces);
  while (*at) {
    size_t size = skip_word(at);
    bool is_owned = size == 5 && strncmp(at, "owned", 5) == 0;
    if (is_owned) {
      at += size + strspn(at + size, spaces);
      size = skip_word(at);
    }
    bool is_output;
    const tn_argument_t *argument = find_argument(&d->schema, at, size, &is_output);
    if (!argument)
      return tn_fail(TENON_INVALID,
                     "arguments '%s', column %d: expected the name of an argument or result of %s",
                     text, (int)(at - text) + 1, d->schema.text);
    TENON_TRY(pass_argument(f, argument, is_output, is_owned));
    at += size + strspn(at + size, spaces);
    if (!*at) break;
    if (*at != ',')
      return tn_fail(TENON_INVALID, "arguments '%s', column %d: expected ','", text,
                     (int)(at - text) + 1);
    at++;
    at += strspn(at, spaces);
  }
  return TENON_OK;
}

/* Whether the function writes its results to memory that it is given. */
static bool takes_results(const declaration_t *d) {
  const tn_schema_t *schema = &d->schema;
  if (!d->signature) return d->declared->shapes != NULL;
  return !d->signature->result_count &&
         d->signature->argument_count == schema->argument_count + schema->output_count;
}

static tenon_status_t pass_in_order(const declaration_t *d, function_t *f) {
  const tn_schema_t *schema = &d->schema;
  for (uint32_t i = 0; i < schema->argument_count; i++)
    TENON_TRY(pass_argument(f, schema->arguments[i], false, false));
  for (uint32_t i = 0; i < schema->output_count && takes_results(d); i++)
    TENON_TRY(pass_argument(f, &schema->outputs[i], true, false));
  return TENON_OK;
}

static bool is_passed(const function_t *f, pass_t pass, pass_t owned, int32_t index, int *times) {
  *times = 0;
  for (int32_t i = 0; i < f->argument_count; i++)
    *times += (f->arguments[i].pass == pass || f->arguments[i].pass == owned) &&
              f->arguments[i].index == index;
  return *times > 0;
}

static tenon_status_t check_passed(const declaration_t *d, function_t *f) {
  const tn_schema_t *schema = &d->schema;
  int times;
  for (uint32_t i = 0; i < schema->output_count; i++) {
    if (!is_passed(f, PASS_OUTPUT, PASS_OUTPUT_OBJECT, (int32_t)i, &times))
      f->returned[f->returned_count++] = (uint8_t)i;
    if (times > 1)
      return tn_fail(TENON_INVALID, "result '%s' is passed %d times", schema->outputs[i].name,
                     times);
  }
  return TENON_OK;
}

/* metadata */

static bool fits_type(const tn_argument_t *argument, const type_t *type) {
  const char *word = metadata_word(type);
  if (!word) return false;
  if (argument->is_tensor != (strncmp(word, "Tensor", 6) == 0)) return false;
  return is_passed_list(argument) == type->is_list;
}

static const tn_argument_t *argument_of(const declaration_t *d, const argument_t *argument) {
  if (argument->pass == PASS_ATTR) return &d->schema.attrs[argument->index];
  if (argument->pass == PASS_OUTPUT || argument->pass == PASS_OUTPUT_OBJECT)
    return &d->schema.outputs[argument->index];
  return &d->schema.inputs[argument->index];
}

/* Compares the declaration with the metadata, which also say which tensors are objects. */
static tenon_status_t apply_metadata(const declaration_t *d, function_t *f) {
  const signature_t *signature = d->signature;
  if (!signature) return TENON_OK;
  if ((uint32_t)f->argument_count != signature->argument_count)
    return tn_fail(TENON_INVALID, "%s: expected %u arguments, as its metadata say, found %d",
                   d->schema.text, signature->argument_count, f->argument_count);
  for (int32_t i = 0; i < f->argument_count; i++) {
    const tn_argument_t *argument = argument_of(d, &f->arguments[i]);
    const type_t *type = &signature->arguments[i];
    if (!fits_type(argument, type))
      return tn_fail(TENON_INVALID,
                     "%s: '%s' is argument %d, which is a %s of %s according to the metadata",
                     d->schema.text, argument->name, i, type->name,
                     metadata_word(type) ? metadata_word(type) : "a type that Tenon cannot pass");
    if (type->kind != TYPE_TENSOR || type->is_list) continue;
    f->has_objects = true;
    if (f->arguments[i].pass == PASS_INPUT) f->arguments[i].pass = PASS_INPUT_OBJECT;
    if (f->arguments[i].pass == PASS_OUTPUT) f->arguments[i].pass = PASS_OUTPUT_OBJECT;
  }
  /* An array may be declared as the results that it contains. */
  if (signature->result_count == 1 && signature->results[0].is_list) return TENON_OK;
  if (f->returned_count && (uint32_t)f->returned_count != signature->result_count)
    return tn_fail(TENON_INVALID, "%s: expected %u returned results, as its metadata say, found %d",
                   d->schema.text, signature->result_count, f->returned_count);
  return TENON_OK;
}

/* dtypes */

static const char *first_tensor(const tn_schema_t *schema) {
  for (uint32_t i = 0; i < schema->input_count; i++)
    if (schema->inputs[i].kind == TENON_KIND_TENSOR && !schema->inputs[i].is_optional)
      return schema->inputs[i].name;
  return NULL;
}

/* The dtype of the k-th returned result, if the metadata state one. */
static const char *returned_dtype(const declaration_t *d, const function_t *f, uint32_t output) {
  static const char *const dtypes[] = {[TYPE_INT] = "i64",
                                       [TYPE_FLOAT] = "f64",
                                       [TYPE_BOOL] = "bool",
                                       [TYPE_STR] = "string",
                                       [TYPE_DEVICE] = NULL};
  for (int32_t k = 0; d->signature && k < f->returned_count; k++)
    if (f->returned[k] == output) return dtypes[d->signature->results[k].kind];
  return NULL;
}

static tenon_status_t compose_types(declaration_t *d, const function_t *f) {
  const tn_schema_t *schema = &d->schema;
  const char *like = first_tensor(schema);
  tn_text_t text = {0};
  tenon_status_t status = TENON_OK;
  d->types = d->declared->types;
  if (d->types) return TENON_OK;
  for (uint32_t i = 0; i < schema->input_count; i++) {
    const char *rule = schema->inputs[i].kind == TENON_KIND_TENSOR ? ": " DTYPES : " = ?";
    tn_text_add(&text, "%s%s%s", text.size ? "; " : "", schema->inputs[i].name, rule);
  }
  for (uint32_t i = 0; i < schema->output_count && status == TENON_OK; i++) {
    const char *dtype = returned_dtype(d, f, i);
    if (!dtype) dtype = like;
    if (!dtype)
      status = tn_fail(TENON_INVALID,
                       "the dtype of result '%s' follows from nothing: state `types`, such as "
                       "\"%s = f32\"",
                       schema->outputs[i].name, schema->outputs[i].name);
    else
      tn_text_add(&text, "%s%s = %s", text.size ? "; " : "", schema->outputs[i].name, dtype);
  }
  d->types = keep_declared(d, &text);
  if (status != TENON_OK) return status;
  return d->types ? TENON_OK : TENON_MEMORY;
}

bool declare_needs_infer(const function_t *function) { return function->returned_count > 0; }

tenon_status_t declare_function(declaration_t *d, const char *ns, function_t *f) {
  if (!d->declared->schema && !d->signature)
    return tn_fail(TENON_INVALID,
                   "it has no metadata, so its schema must be stated, such as "
                   "\"%s(Tensor x) -> Tensor\"",
                   d->declared->name);
  TENON_TRY(parse_schema(d, ns));
  TENON_TRY(check_schema(d));
  if (d->declared->arguments)
    TENON_TRY(read_argument_order(d, d->declared->arguments, f));
  else
    TENON_TRY(pass_in_order(d, f));
  TENON_TRY(check_passed(d, f));
  TENON_TRY(apply_metadata(d, f));
  return compose_types(d, f);
}
