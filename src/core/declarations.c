/* The short declarations of an operator: WHERE, REUSE, BATCHING, REDUCES, USES, and the
 * declarations of kernels and loops. Called by the registry when a library is loaded. Every name is
 * resolved against the schema here, so later code works with indices. */
#include "core/declarations.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/status.h"
#include "core/lexer.h"
#include "core/nearest.h"

/* names and words */

static tenon_status_t fail_unknown_name(const tn_lexer_t *lexer, const tn_argument_t *arguments,
                                        uint32_t count, const char *expected) {
  char found[64];
  tn_nearest_t nearest;
  tn_nearest_begin(&nearest, lexer->start, lexer->size);
  for (uint32_t i = 0; i < count; i++)
    tn_nearest_offer(&nearest, arguments[i].name);
  tn_escape(lexer->start, lexer->size, found, sizeof found);
  return tn_lexer_fail(lexer, "expected the name of %s, found '%s'%s", expected, found,
                       tn_nearest_say(&nearest));
}

/* The inputs, attributes or results among which a name is looked up. */
typedef struct group_t {
  const char *expected;
  const tn_argument_t *arguments;
  uint32_t count;
} group_t;

static group_t inputs_of(const tn_schema_t *schema) {
  return (group_t){"an input", schema->inputs, schema->input_count};
}
static group_t outputs_of(const tn_schema_t *schema) {
  return (group_t){"a result", schema->outputs, schema->output_count};
}
static group_t attrs_of(const tn_schema_t *schema) {
  return (group_t){"an attribute", schema->attrs, schema->attr_count};
}

static tenon_status_t take_name(tn_lexer_t *lexer, group_t group,
                                const tn_argument_t **out_argument) {
  for (uint32_t i = 0; i < group.count; i++)
    if (tn_lexer_is(lexer, group.arguments[i].name)) {
      *out_argument = &group.arguments[i];
      tn_lexer_next(lexer);
      return TENON_OK;
    }
  if (lexer->kind == TN_TOKEN_NAME)
    return fail_unknown_name(lexer, group.arguments, group.count, group.expected);
  return tn_lexer_expected(lexer, group.expected);
}

/* Parses names separated by commas into a bit mask. A name may not be repeated. */
static tenon_status_t take_names(tn_lexer_t *lexer, group_t group, uint64_t *out_bits) {
  *out_bits = 0;
  do {
    const tn_argument_t *argument = NULL;
    const char *at = lexer->start;
    TN_TRY(take_name(lexer, group, &argument));
    uint64_t bit = (uint64_t)1 << argument->index;
    if (*out_bits & bit) return tn_lexer_fail_at(lexer, at, "'%s' is listed twice", argument->name);
    *out_bits |= bit;
  } while (tn_lexer_take(lexer, ','));
  return TENON_OK;
}

typedef struct word_t {
  const char *name;
  uint32_t bit;
} word_t;

static uint32_t find_word(const tn_lexer_t *lexer, const word_t *words) {
  for (; words->name; words++)
    if (tn_lexer_is(lexer, words->name)) return words->bit;
  return 0;
}

/* WHERE, REUSE, BATCHING */

tenon_status_t tn_where_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              const uint8_t **out_words) {
  static const word_t words[] = {{"known", TN_INPUT_KNOWN},
                                 {"deduced", TN_INPUT_DEDUCED},
                                 {"strided", TN_INPUT_STRIDED},
                                 {"anywhere", TN_INPUT_ANYWHERE},
                                 {NULL, 0}};
  static const char *const known[] = {"known", "deduced", "strided", "anywhere", NULL};
  uint8_t *stated = tn_arena_array(arena, schema->input_count, sizeof *stated);
  if (!stated) return tn_no_memory("properties of inputs", schema->input_count);
  *out_words = stated;
  tn_lexer_t lexer;
  tn_lexer_open(&lexer, "where", text ? text : "");
  if (lexer.kind == TN_TOKEN_END) return TENON_OK;
  do {
    uint64_t inputs;
    uint32_t bits = 0;
    uint32_t bit;
    const char *at = lexer.start;
    TN_TRY(take_names(&lexer, inputs_of(schema), &inputs));
    TN_TRY(tn_lexer_expect(&lexer, ':', "',' or ':' and properties of the input"));
    while ((bit = find_word(&lexer, words))) {
      bits |= bit;
      tn_lexer_next(&lexer);
      tn_lexer_take(&lexer, ',');
    }
    if (!bits || lexer.kind == TN_TOKEN_NAME)
      return tn_lexer_unknown(&lexer, "known, deduced, strided or anywhere", known, NULL);
    for (uint32_t i = 0; i < schema->input_count; i++) {
      if (!(inputs >> i & 1)) continue;
      if (stated[i])
        return tn_lexer_fail_at(&lexer, at, "input '%s' is declared twice", schema->inputs[i].name);
      stated[i] = (uint8_t)bits;
    }
  } while (tn_lexer_take(&lexer, ';'));
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "';' or the end");
}

tenon_status_t tn_reuse_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              const int32_t **out_inputs) {
  int32_t *inputs = tn_arena_array(arena, schema->output_count, sizeof *inputs);
  if (!inputs) return tn_no_memory("reuse", schema->output_count * sizeof *inputs);
  for (uint32_t i = 0; i < schema->output_count; i++)
    inputs[i] = -1;
  *out_inputs = inputs;
  tn_lexer_t lexer;
  tn_lexer_open(&lexer, "reuse", text ? text : "");
  if (lexer.kind == TN_TOKEN_END) return TENON_OK;
  do {
    const tn_argument_t *output = NULL;
    const tn_argument_t *input = NULL;
    const char *at = lexer.start;
    TN_TRY(take_name(&lexer, outputs_of(schema), &output));
    if (inputs[output->index] >= 0)
      return tn_lexer_fail_at(&lexer, at, "result '%s' is declared twice", output->name);
    if (output->kind == TENON_KIND_TENSORS || output->mark)
      return tn_lexer_fail_at(&lexer, at,
                              "result '%s' is %s, so it has no memory that could be chosen",
                              output->name, output->mark ? "an alias" : "a list");
    TN_TRY(tn_lexer_expect(&lexer, ':', "':' and an input"));
    at = lexer.start;
    TN_TRY(take_name(&lexer, inputs_of(schema), &input));
    if (input->kind == TENON_KIND_TENSORS || input->mark)
      return tn_lexer_fail_at(&lexer, at, "input '%s' is %s, so no result can reuse its memory",
                              input->name, input->mark ? "marked as an alias" : "a list");
    for (uint32_t i = 0; i < schema->output_count; i++)
      if (inputs[i] == input->index)
        return tn_lexer_fail_at(&lexer, at, "'%s' already reuses the memory of '%s'",
                                schema->outputs[i].name, input->name);
    inputs[output->index] = input->index;
  } while (tn_lexer_take(&lexer, ';'));
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "';' or the end");
}

tenon_status_t tn_batching_parse(const char *text, const tn_schema_t *schema,
                                 tn_batching_t *out_batching) {
  tn_lexer_t lexer;
  *out_batching = (tn_batching_t){.text = text};
  if (!text) return TENON_OK;
  tn_lexer_open(&lexer, "batching", text);
  tn_lexer_t ahead = lexer;
  tn_lexer_next(&ahead);
  if (tn_lexer_is(&lexer, "none") && ahead.kind == TN_TOKEN_END) {
    out_batching->is_none = true;
    return TENON_OK;
  }
  TN_TRY(take_names(&lexer, inputs_of(schema), &out_batching->inputs));
  TN_TRY(tn_lexer_expect(&lexer, TN_TOKEN_ARROW, "',' or '->' and results"));
  TN_TRY(take_names(&lexer, outputs_of(schema), &out_batching->outputs));
  if (tn_lexer_take(&lexer, ';')) {
    if (!tn_lexer_is(&lexer, "shift"))
      return tn_lexer_unknown(&lexer, "'shift' and attributes",
                              (const char *const[]){"shift", NULL}, NULL);
    tn_lexer_next(&lexer);
    const char *at = lexer.start;
    TN_TRY(take_names(&lexer, attrs_of(schema), &out_batching->shifts));
    for (uint32_t i = 0; i < schema->attr_count; i++) {
      uint32_t kind = schema->attrs[i].kind;
      bool is_axis = kind == TENON_KIND_INT || kind == TENON_KIND_DIM || kind == TENON_KIND_INTS ||
                     kind == TENON_KIND_DIMS;
      if ((out_batching->shifts >> i & 1) && !is_axis)
        return tn_lexer_fail_at(
            &lexer, at, "attribute '%s' is not an int or a list of ints, so it cannot count axes",
            schema->attrs[i].name);
    }
  }
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "the end");
}

/* REDUCES */

tenon_status_t tn_reduces_parse(const char *text, const tn_schema_t *schema,
                                tn_reduces_t *out_reduces) {
  tn_lexer_t lexer;
  const tn_argument_t *input = NULL;
  const tn_argument_t *axes = NULL;
  *out_reduces = (tn_reduces_t){text, -1, -1, -1};
  if (!text) return TENON_OK;
  tn_lexer_open(&lexer, "reduces", text);
  const char *at = lexer.start;
  TN_TRY(take_name(&lexer, inputs_of(schema), &input));
  if (input->kind == TENON_KIND_TENSORS || input->is_optional || input->is_host ||
      input->is_written)
    return tn_lexer_fail_at(
        &lexer, at, "input '%s' cannot be reduced: it is a list, optional, written to or @host",
        input->name);
  out_reduces->input = input->index;
  if (lexer.kind == TN_TOKEN_END) return TENON_OK;
  if (!tn_lexer_is(&lexer, "over"))
    return tn_lexer_unknown(&lexer, "'over' and axes, or the end",
                            (const char *const[]){"over", NULL}, NULL);
  tn_lexer_next(&lexer);
  at = lexer.start;
  bool is_input = false;
  for (uint32_t i = 0; i < schema->input_count; i++)
    is_input |= tn_lexer_is(&lexer, schema->inputs[i].name);
  TN_TRY(take_name(&lexer, is_input ? inputs_of(schema) : attrs_of(schema), &axes));
  if (is_input ? !axes->is_host || axes->kind == TENON_KIND_TENSORS
               : axes->kind != TENON_KIND_INT && axes->kind != TENON_KIND_INTS)
    return tn_lexer_fail_at(
        &lexer, at, "'%s' cannot list axes: expected an input that is @host, an int or int[]",
        axes->name);
  *(is_input ? &out_reduces->axes_input : &out_reduces->axes_attr) = axes->index;
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "the end");
}

/* USES */

tenon_status_t tn_uses_parse(const char *text, const char *ns, tn_arena_t *arena,
                             const char *const **out_names, uint32_t *out_count) {
  tn_lexer_t lexer;
  *out_names = NULL;
  *out_count = 0;
  tn_lexer_open(&lexer, "uses", text ? text : "");
  if (lexer.kind == TN_TOKEN_END) return TENON_OK;
  size_t room = tn_lexer_count(&lexer, TN_TOKEN_END);
  const char **names = tn_arena_array(arena, room, sizeof *names);
  if (!names || room > UINT32_MAX) return tn_no_memory("uses", room * sizeof *names);
  uint32_t count = 0;
  do
    TN_TRY(tn_lexer_operator(&lexer, arena, ns, &names[count++]));
  while (tn_lexer_take(&lexer, ','));
  *out_names = names;
  *out_count = count;
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "',' or the end");
}

/* kernels and loops */

static const word_t capabilities[] = {{"strided", TN_KERNEL_STRIDED},
                                      {"serial", TN_KERNEL_SERIAL},
                                      {"accumulates", TN_KERNEL_ACCUMULATES},
                                      {"quantised", TN_KERNEL_QUANTISED},
                                      {"sparse", TN_KERNEL_SPARSE},
                                      {"capturable", TN_KERNEL_CAPTURABLE},
                                      {"fallthrough", TN_KERNEL_FALLTHROUGH},
                                      {"lower", TN_KERNEL_LOWER},
                                      {"fallback", TN_KERNEL_FALLBACK},
                                      {"no_fallback", TN_KERNEL_NO_FALLBACK},
                                      {"scalars", TN_KERNEL_SCALARS},
                                      {"anywhere", TN_KERNEL_ANYWHERE},
                                      {"rows", TN_KERNEL_ROWS},
                                      {"doubles", TN_KERNEL_DOUBLES},
                                      {"halves", TN_KERNEL_HALVES},
                                      {"wide_atomics", TN_KERNEL_WIDE_ATOMICS},
                                      {NULL, 0}};
static const word_t places[] = {{"composite", TN_AT_COMPOSITE},
                                {"composite_explicit", TN_AT_EXPLICIT},
                                {"autograd", TN_AT_AUTOGRAD},
                                {"autocast", TN_AT_AUTOCAST},
                                {"view", TN_AT_VIEW},
                                {"functional", TN_AT_FUNCTIONAL},
                                {NULL, 0}};

static const char *isa_word(int index) { return tn_cpu_word(index + 1); }

/* Parses an instruction set, or a capability out of `allowed`. *out_taken is false if the token is
 * neither. */
static tenon_status_t take_word(tn_lexer_t *lexer, uint32_t allowed, int *isa, uint32_t *flags,
                                bool *out_taken) {
  int rank = lexer->kind == TN_TOKEN_NAME ? tn_cpu_rank(lexer->start, lexer->size) : -1;
  uint32_t flag = find_word(lexer, capabilities) & allowed;
  *out_taken = rank > 0 || flag;
  if (!*out_taken) return TENON_OK;
  if (rank > 0 && *isa)
    return tn_lexer_fail(lexer, "two instruction sets: state only the one that includes the other");
  if (flag & *flags)
    return tn_lexer_fail(lexer, "'%.*s' is listed twice", (int)lexer->size, lexer->start);
  if (rank > 0) *isa = rank;
  *flags |= flag;
  tn_lexer_next(lexer);
  return TENON_OK;
}

/* The backend of a kernel for a layer: one backend's name, or none for all backends. */
static tenon_status_t take_backend(tn_lexer_t *lexer, tn_arena_t *arena, tn_kernel_words_t *words) {
  bool is_word = lexer->kind != TN_TOKEN_NAME || find_word(lexer, capabilities) ||
                 tn_cpu_rank(lexer->start, lexer->size) > 0 ||
                 tn_dtype_set(lexer->start, lexer->size);
  bool may = words->at == TN_AT_AUTOGRAD || words->at == TN_AT_AUTOCAST;
  words->device = NULL;
  return is_word || !may ? TENON_OK
                         : tn_lexer_name(lexer, arena, "the name of a device", &words->device);
}

tenon_status_t tn_kernel_parse(const char *text, tn_arena_t *arena, tn_kernel_words_t *out_words) {
  tn_lexer_t lexer;
  *out_words = (tn_kernel_words_t){.dtypes = ~(uint64_t)0};
  tn_lexer_open(&lexer, "kernel", text ? text : "");
  out_words->at = (uint8_t)find_word(&lexer, places); /* 0: the name of a backend */
  TN_TRY(tn_lexer_name(&lexer, arena, "the name of a device (cpu, ...)", &out_words->device));
  if (out_words->at) TN_TRY(take_backend(&lexer, arena, out_words));
  while (lexer.kind != TN_TOKEN_END) {
    bool is_taken;
    TN_TRY(take_word(&lexer, ~0u, &out_words->isa, &out_words->flags, &is_taken));
    if (is_taken) continue;
    uint64_t dtypes = 0;
    uint64_t set;
    const char *at = lexer.start;
    do {
      set = lexer.kind == TN_TOKEN_NAME ? tn_dtype_set(lexer.start, lexer.size) : 0;
      if (!set) break;
      dtypes |= set;
      tn_lexer_next(&lexer);
    } while (tn_lexer_take(&lexer, '|'));
    if (!set) {
      const char *words[32];
      int count = 0;
      for (const word_t *word = capabilities; word->name; word++)
        words[count++] = word->name;
      for (int i = 0; isa_word(i) && count < 31; i++)
        words[count++] = isa_word(i);
      words[count] = NULL;
      return tn_lexer_unknown(
          &lexer, dtypes ? "a dtype after '|'" : "an instruction set, dtypes or a capability",
          words, tn_dtype_word);
    }
    if (out_words->dtypes != ~(uint64_t)0)
      return tn_lexer_fail_at(&lexer, at,
                              "several lists of dtypes: join dtypes by '|', as in f32|f64");
    out_words->dtypes = dtypes;
  }
  return TENON_OK;
}

/* Parses one dtype for each argument, up to the arrow or the end. */
static tenon_status_t take_dtypes(tn_lexer_t *lexer, const tn_argument_t *arguments, uint32_t count,
                                  const char *what, tenon_dtype_t *out_dtypes) {
  for (uint32_t i = 0; i < count; i++) {
    if (arguments[i].kind == TENON_KIND_TENSORS)
      return tn_lexer_fail(lexer, "a loop cannot have a list: %s '%s' is one", what,
                           arguments[i].name);
    if (i && lexer->kind != ',') {
      char expected[600];
      snprintf(expected, sizeof expected, "',' and the dtype of %s '%s'", what, arguments[i].name);
      return tn_lexer_expected(lexer, expected);
    }
    if (i) tn_lexer_next(lexer);
    if (lexer->kind != TN_TOKEN_NAME ||
        !tn_dtype_parse(lexer->start, lexer->size, &out_dtypes[i])) {
      char expected[600];
      snprintf(expected, sizeof expected, "the dtype of %s '%s'", what, arguments[i].name);
      return tn_lexer_unknown(lexer, expected, NULL, tn_dtype_word);
    }
    tn_lexer_next(lexer);
  }
  if (lexer->kind != ',' && (count || lexer->kind != TN_TOKEN_NAME)) return TENON_OK;
  return tn_lexer_fail(lexer, "more dtypes than the %u %ss of the schema", count, what);
}

tenon_status_t tn_loop_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                             tn_loop_words_t *out_words) {
  tn_lexer_t lexer;
  uint32_t count = schema->input_count + schema->output_count;
  tenon_dtype_t *dtypes = tn_arena_array(arena, count, sizeof *dtypes);
  if (!dtypes) return tn_no_memory("a loop", count * sizeof *dtypes);
  *out_words = (tn_loop_words_t){.dtypes = dtypes};
  tn_lexer_open(&lexer, "loop", text ? text : "");
  TN_TRY(take_dtypes(&lexer, schema->inputs, schema->input_count, "input", dtypes));
  TN_TRY(tn_lexer_expect(&lexer, TN_TOKEN_ARROW, "'->' and the dtypes of the results"));
  TN_TRY(take_dtypes(&lexer, schema->outputs, schema->output_count, "result",
                     dtypes + schema->input_count));
  if (tn_lexer_take(&lexer, ';')) {
    bool is_taken = true;
    while (lexer.kind != TN_TOKEN_END && is_taken)
      TN_TRY(take_word(&lexer, TN_KERNEL_STRIDED, &out_words->isa, &out_words->flags, &is_taken));
    if (!is_taken)
      return tn_lexer_unknown(&lexer, "an instruction set or 'strided'",
                              (const char *const[]){"strided", NULL}, isa_word);
  }
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "';' and words, or the end");
}
