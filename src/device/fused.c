/* Writes the text of a fused kernel, see fused.h. Each file with members is in it once for each set
 * of constants. What two of them define is renamed by macros: kernels always, other names that are
 * defined outside of functions when they meet. Macros end with their file. */
#include "device/fused.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "core/dtype.h"

/* Names that a file defines */

typedef struct name_t {
  const char *at;
  size_t size;
} name_t;

typedef struct names_t {
  name_t *at;
  size_t count;
  size_t capacity;
  bool failed;
} names_t;

static bool has_fused_name(const names_t *names, const char *at, size_t size) {
  for (size_t i = 0; i < names->count; i++)
    if (names->at[i].size == size && memcmp(names->at[i].at, at, size) == 0) return true;
  return false;
}

static void add_fused_name(names_t *names, const char *at, size_t size) {
  if (has_fused_name(names, at, size)) return;
  if (tn_grow((void **)&names->at, &names->capacity, names->count, sizeof *names->at))
    names->at[names->count++] = (name_t){at, size};
  else
    names->failed = true;
}

static bool is_name_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* A position in a text that is not terminated. */
typedef struct reader_t {
  const char *at;
  const char *end;
  int braces;
  int parentheses;
  bool is_enum; /* the braces around this place are those of an enumeration */
  names_t *names;
  names_t *macros;
} reader_t;

static bool starts_with(const reader_t *r, const char *word) {
  const size_t size = strlen(word);
  return (size_t)(r->end - r->at) >= size && memcmp(r->at, word, size) == 0;
}

/* The end of a logical line: a backslash continues it. */
static const char *end_of_line(const char *at, const char *end) {
  while (at < end && *at != '\n')
    at += *at == '\\' && at + 1 < end ? 2 : 1;
  return at < end ? at : end;
}

static bool line_has(const char *at, const char *end, const char *word) {
  const size_t size = strlen(word);
  for (; (size_t)(end - at) >= size; at++)
    if (memcmp(at, word, size) == 0) return true;
  return false;
}

/* Moves to the first character of the next line that ends what the condition at this place begins,
 * which is for the host alone. */
static void skip_host_part(reader_t *r) {
  int depth = 1;
  while (r->at < r->end && depth) {
    r->at = end_of_line(r->at, r->end);
    while (r->at < r->end && isspace((unsigned char)*r->at))
      r->at++;
    if (r->at == r->end || *r->at != '#') continue;
    r->at++;
    while (r->at < r->end && *r->at == ' ')
      r->at++;
    if (starts_with(r, "if")) depth++;
    if (starts_with(r, "endif")) depth--;
    if (depth == 1 && (starts_with(r, "else") || starts_with(r, "elif"))) depth = 0;
  }
  r->at = end_of_line(r->at, r->end);
}

static void read_directive(reader_t *r) {
  r->at++;
  while (r->at < r->end && *r->at == ' ')
    r->at++;
  const char *end = end_of_line(r->at, r->end);
  const bool is_host =
      (starts_with(r, "ifndef") && line_has(r->at, end, "TENON_ON_DEVICE")) ||
      (starts_with(r, "if ") && (line_has(r->at, end, "!defined TENON_ON_DEVICE") ||
                                 line_has(r->at, end, "!defined(TENON_ON_DEVICE")));
  if (starts_with(r, "define")) {
    const char *name = r->at + strlen("define");
    while (name < end && *name == ' ')
      name++;
    const char *after = name;
    while (after < end && is_name_character(*after))
      after++;
    add_fused_name(r->macros, name, (size_t)(after - name));
  }
  if (is_host)
    skip_host_part(r);
  else
    r->at = end;
}

/* Skips a comment or a literal. False: there is none here. */
static bool skip_passive(reader_t *r) {
  const char quote = *r->at;
  if (starts_with(r, "//")) {
    r->at = end_of_line(r->at, r->end);
    return true;
  }
  if (starts_with(r, "/*")) {
    r->at += 2;
    while (r->at < r->end && !starts_with(r, "*/"))
      r->at++;
    r->at = r->end - r->at > 2 ? r->at + 2 : r->end;
    return true;
  }
  if (quote != '"' && quote != '\'') return false;
  for (r->at++; r->at < r->end && *r->at != quote; r->at++)
    r->at += *r->at == '\\';
  r->at = r->at < r->end ? r->at + 1 : r->end;
  return true;
}

static bool is_word(const char *at, size_t size, const char *word) {
  return strlen(word) == size && memcmp(at, word, size) == 0;
}

/* Whether the name is one of the language or of the prelude. */
static bool is_reserved(const char *at, size_t size) {
  static const char *const words[] = {"enum", "struct", "union", "const", "static", "inline"};
  if (at[0] == '_' || isdigit((unsigned char)at[0])) return true;
  if (size >= 6 && (memcmp(at, "TENON_", 6) == 0 || memcmp(at, "tenon_", 6) == 0)) return true;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (is_word(at, size, words[i])) return true;
  return false;
}

/* A name outside of functions is one that the file defines if one of these characters follows. */
static void read_name(reader_t *r) {
  const char *begin = r->at;
  while (r->at < r->end && is_name_character(*r->at))
    r->at++;
  const size_t size = (size_t)(r->at - begin);
  if (is_word(begin, size, "enum")) r->is_enum = true;
  const bool is_outside = !r->parentheses && (!r->braces || (r->is_enum && r->braces == 1));
  const char *next = r->at;
  while (next < r->end && isspace((unsigned char)*next))
    next++;
  if (is_outside && !is_reserved(begin, size) && next < r->end && strchr("(;=[,{}", *next))
    add_fused_name(r->names, begin, size);
}

/* Lists the names that a text defines outside of functions, and its macros. */
static void find_names(const tenon_code_t *code, names_t *names, names_t *macros) {
  reader_t r = {.at = code->text, .end = code->end, .names = names, .macros = macros};
  while (r.at < r.end) {
    const char c = *r.at;
    if (c == '#') {
      read_directive(&r);
      continue;
    }
    if (skip_passive(&r)) continue;
    if (is_name_character(c)) {
      read_name(&r);
      continue;
    }
    r.braces += (c == '{') - (c == '}');
    r.parentheses += (c == '(') - (c == ')');
    if (c == ';' && !r.braces) r.is_enum = false;
    r.at++;
  }
}

/* Files */

typedef struct writer_t {
  uint32_t language;
  const tn_fused_t *fused;
  const tn_fused_layout_t *layout;
  tn_text_t *text;
  names_t names; /* of the files so far */
} writer_t;

static bool is_same_file(const tn_fused_member_t *a, const tn_fused_member_t *b) {
  const bool is_one_set = a->constants && b->constants ? strcmp(a->constants, b->constants) == 0
                                                       : a->constants == b->constants;
  return a->code == b->code && is_one_set;
}

/* The first member of the same file and constants. */
static int32_t file_of(const tn_fused_t *fused, int32_t member) {
  int32_t first = 0;
  while (!is_same_file(&fused->members[first], &fused->members[member]))
    first++;
  return first;
}

static void rename_kernels(writer_t *w, const tenon_code_t *code, int32_t file, bool begins) {
  for (uint32_t k = 0; k < code->kernel_count; k++) {
    const char *name = code->kernels[k].name;
    tn_text_add(w->text, "#undef %s\n", name);
    if (begins) tn_text_add(w->text, "#define %s tenon_%d_%s\n", name, (int)file, name);
  }
}

static void rename_others(writer_t *w, const names_t *names, const names_t *macros, int32_t file,
                          bool begins) {
  for (size_t i = 0; i < names->count; i++) {
    const name_t *n = &names->at[i];
    if (!has_fused_name(&w->names, n->at, n->size) || has_fused_name(macros, n->at, n->size))
      continue;
    tn_text_add(w->text, "#undef %.*s\n", (int)n->size, n->at);
    if (begins)
      tn_text_add(w->text, "#define %.*s tenon_%d_%.*s\n", (int)n->size, n->at, (int)file,
                  (int)n->size, n->at);
  }
}

static void end_constants(writer_t *w, const char *constants) {
  for (const char *at = constants; at && *at;) {
    const size_t size = strcspn(at, " ");
    if (size) tn_text_add(w->text, "#undef %.*s\n", (int)strcspn(at, "= "), at);
    at += size + strspn(at + size, " ");
  }
}

/* Whether the words of the prelude have a macro of this name. */
static bool is_prelude_word(const tn_text_t *prelude, const name_t *n) {
  char line[128];
  if (n->size > 100) return false;
  snprintf(line, sizeof line, "#define %.*s", (int)n->size, n->at);
  for (const char *at = tn_text_get(prelude); (at = strstr(at, line)) != NULL; at++)
    if (!is_name_character(at[strlen(line)])) return true;
  return false;
}

static void end_macros(writer_t *w, const names_t *macros) {
  tn_text_t prelude = {0};
  tn_prelude(w->language, &prelude);
  for (size_t i = 0; i < macros->count; i++)
    if (macros->at[i].size && !is_prelude_word(&prelude, &macros->at[i]))
      tn_text_add(w->text, "#undef %.*s\n", (int)macros->at[i].size, macros->at[i].at);
  tn_text_clear(&prelude);
}

static void add_source_file(writer_t *w, int32_t file) {
  const tn_fused_member_t *member = &w->fused->members[file];
  names_t names = {0};
  names_t macros = {0};
  find_names(member->code, &names, &macros);
  rename_kernels(w, member->code, file, true);
  rename_others(w, &names, &macros, file, true);
  tn_program_source(member->code, member->constants ? member->constants : "", w->text);
  tn_text_add(w->text, "\n");
  end_macros(w, &macros);
  end_constants(w, member->constants);
  rename_others(w, &names, &macros, file, false);
  rename_kernels(w, member->code, file, false);
  for (size_t i = 0; i < names.count; i++)
    add_fused_name(&w->names, names.at[i].at, names.at[i].size);
  w->text->failed |= names.failed || macros.failed || w->names.failed;
  tn_release_memory(names.at);
  tn_release_memory(macros.at);
}

/* The kernel */

static const char *fused_type_of(tenon_dtype_t dtype) {
  static const char *const types[] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"};
  const uint32_t bits = (uint32_t)(dtype.bits * dtype.lanes);
  if (tn_dtype_is(dtype, TENON_F32)) return "float";
  if (tn_dtype_is(dtype, TENON_F64)) return "double";
  int i = 0;
  while (i < 3 && 8u << i < bits)
    i++;
  return types[i];
}

/* Declares an array with the bytes of an argument, in the widest words that fit. */
static void add_byte_array(writer_t *w, int32_t member, uint32_t argument) {
  const void *bytes = w->fused->members[member].arguments[argument].bytes;
  const uint32_t size = w->fused->members[member].arguments[argument].size;
  uint32_t step = size % 4 ? 1 : 4;
  if (size % 8 == 0) step = 8;
  tn_text_add(w->text, "TENON_CONSTANT uint%u_t tenon_b%d_%u[%u] = {", 8 * step, (int)member,
              argument, size / step);
  for (uint32_t i = 0; i < size; i += step) {
    uint64_t word = 0;
    memcpy(&word, (const char *)bytes + i, step);
    tn_text_add(w->text, "%s0x%" PRIx64, i ? ", " : "", word);
  }
  tn_text_add(w->text, "};\n");
}

/* Writes the parameters of the kernel, and returns how many there are. */
static int add_parameters(writer_t *w, tn_text_t *list, uint32_t *out_walked) {
  int count = 1;
  uint32_t at = 0;
  *out_walked = 0;
  for (int32_t v = 0; v < w->fused->value_count; v++) {
    const tn_fused_value_t *value = &w->fused->values[v];
    if (!value->is_read) continue;
    *out_walked += w->layout->ways[at++] == TN_FUSED_WALK;
    tn_text_add(list, ", IN, %s, r%d", fused_type_of(value->dtype), (int)v);
    count++;
  }
  for (int32_t v = 0; v < w->fused->value_count; v++)
    if (w->fused->values[v].is_written) {
      tn_text_add(list, ", OUT, %s, w%d", fused_type_of(w->fused->values[v].dtype), (int)v);
      count++;
    }
  tn_text_add(list, *out_walked ? ", VALUE, tenon_fused_walk_t, walk" : ", VALUE, int64_t, count");
  return count;
}

/* Computes the positions of the operands that are walked. */
static void add_walk(writer_t *w, uint32_t walked) {
  const char *type = w->layout->is_wide ? "int64_t" : "uint32_t";
  tn_text_add(w->text, "  %s rest = (%s)i;\n", type, type);
  for (uint32_t k = 0; k < walked; k++)
    tn_text_add(w->text, "  int64_t at%u = walk.first[%u];\n", k, k);
  for (int a = w->layout->rank - 1; a >= 0; a--) {
    if (a)
      tn_text_add(w->text,
                  "  %s next%d = rest / (%s)walk.shape[%d];\n"
                  "  %s here%d = rest - next%d * (%s)walk.shape[%d];\n  rest = next%d;\n",
                  type, a, type, a, type, a, a, type, a, a);
    else
      tn_text_add(w->text, "  %s here0 = rest;\n", type);
    for (uint32_t k = 0; k < walked; k++)
      tn_text_add(w->text, "  at%u += (int64_t)here%d * walk.strides[%u][%d];\n", k, a, k, a);
  }
}

/* Declares the variable of a value that is known. */
static void add_constant(writer_t *w, int32_t v) {
  const tn_fused_value_t *value = &w->fused->values[v];
  const char *type = fused_type_of(value->dtype);
  uint64_t bits = 0;
  memcpy(&bits, value->constant, (size_t)(value->dtype.bits * value->dtype.lanes / 8));
  if (tn_dtype_is(value->dtype, TENON_F32))
    tn_text_add(w->text, "  float v%d = float_of_bits(0x%" PRIx64 "u);\n", (int)v, bits);
  else
    tn_text_add(w->text, "  %s v%d = (%s)0x%" PRIx64 ";\n", type, (int)v, type, bits);
}

/* Declares a variable for each value. */
static void add_fused_values(writer_t *w) {
  uint32_t at = 0;
  uint32_t walked = 0;
  for (int32_t v = 0; v < w->fused->value_count; v++) {
    const tn_fused_value_t *value = &w->fused->values[v];
    if (value->constant) {
      add_constant(w, v);
      continue;
    }
    tn_text_add(w->text, "  %s v%d", fused_type_of(value->dtype), (int)v);
    if (value->is_read) {
      const uint8_t way = w->layout->ways[at++];
      if (way == TN_FUSED_WALK)
        tn_text_add(w->text, " = r%d[at%u]", (int)v, walked++);
      else
        tn_text_add(w->text, " = r%d[%s]", (int)v, way == TN_FUSED_ONE ? "0" : "i");
    }
    tn_text_add(w->text, ";\n");
  }
}

static void add_member_call(writer_t *w, int32_t m, const char *hidden) {
  const tn_fused_member_t *member = &w->fused->members[m];
  tn_text_add(w->text, "  tenon_%d_%s_call(%s", (int)file_of(w->fused, m),
              member->code->kernels[member->kernel].name, hidden);
  for (uint32_t i = 0; i < member->argument_count; i++) {
    const int value = (int)member->arguments[i].value;
    tn_text_add(w->text, i ? ", " : "");
    if (value < 0)
      tn_text_add(w->text, "tenon_b%d_%u", (int)m, i);
    else
      tn_text_add(w->text, "&v%d", value);
  }
  tn_text_add(w->text, ");\n");
}

/* Declares the arguments by value of all members. */
static void add_arguments(writer_t *w) {
  for (int32_t m = 0; m < w->fused->member_count; m++)
    for (uint32_t i = 0; i < w->fused->members[m].argument_count; i++)
      if (w->fused->members[m].arguments[i].value < 0) add_byte_array(w, m, i);
}

static void add_fused_kernel(writer_t *w) {
  tn_text_t list = {0};
  uint32_t walked;
  const int count = add_parameters(w, &list, &walked);
  const char *hidden = tn_prelude_entry(w->language, count, w->text);
  if (walked)
    tn_text_add(w->text,
                "typedef struct {\n  int64_t count, shape[8], first[%u], strides[%u][8];\n} "
                "tenon_fused_walk_t;\n",
                TN_FUSED_WALKED, walked);
  add_arguments(w);
  tn_text_add(w->text, "TENON_SOURCE_%d(" TN_FUSED_KERNEL "%s) {\n", count, tn_text_get(&list));
  tn_text_add(w->text, "  int64_t i = tenon_index(%s);\n", *hidden ? "tenon_id" : "");
  tn_text_add(w->text, "  if (i >= %s) return;\n", walked ? "walk.count" : "count");
  if (walked) add_walk(w, walked);
  add_fused_values(w);
  for (int32_t m = 0; m < w->fused->member_count; m++)
    add_member_call(w, m, hidden);
  for (int32_t v = 0; v < w->fused->value_count; v++)
    if (w->fused->values[v].is_written) tn_text_add(w->text, "  w%d[i] = v%d;\n", (int)v, (int)v);
  tn_text_add(w->text, "}\n");
  w->text->failed |= list.failed;
  tn_text_clear(&list);
}

void tn_fused_text(uint32_t language, const tn_fused_t *fused, const tn_fused_layout_t *layout,
                   tn_text_t *text) {
  writer_t w = {.language = language, .fused = fused, .layout = layout, .text = text};
  tn_prelude_members(language, text);
  for (int32_t m = 0; m < fused->member_count; m++)
    if (file_of(fused, m) == m) add_source_file(&w, m);
  tn_text_add(text, "#line 1 \"a fused kernel\"\n");
  add_fused_kernel(&w);
  tn_release_memory(w.names.at);
}

uint64_t tn_fused_walk_size(uint32_t operands) {
  return offsetof(tn_fused_walk_t, strides) + (uint64_t)operands * 8 * sizeof(int64_t);
}
