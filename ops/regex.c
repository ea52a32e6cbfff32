/* regex_full_match: which strings a regular expression matches as a whole. PCRE2 does the work. It
 * is opened at run time, so that nothing depends on it. ONNX names the syntax of RE2, which PCRE2
 * has too, among more. The pattern is compiled once, into the state of the operator.
 * Invariant: a pattern that needs too many steps is an error, not a wait without end. */
#include "axes.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

/* What pcre2.h declares, for 8-bit code units. */
typedef struct regex_code_t regex_code_t;
typedef struct regex_match_t regex_match_t;
enum {
  REGEX_NO_MATCH = -1,
  REGEX_MESSAGE = 160,
};
#define REGEX_UTF 0x00080000u
#define REGEX_ANCHORED 0x80000000u
#define REGEX_END_ANCHORED 0x20000000u

typedef struct regex_library_t {
  regex_code_t *(*compile)(const uint8_t *, size_t, uint32_t, int *, size_t *, void *);
  regex_match_t *(*create)(const regex_code_t *, void *);
  int (*match)(const regex_code_t *, const uint8_t *, size_t, size_t, uint32_t, regex_match_t *,
               void *);
  int (*message)(int, uint8_t *, size_t);
  void (*free_match)(regex_match_t *);
  void (*free_code)(regex_code_t *);
} regex_library_t;

/* Finds the functions. The library stays loaded, since its code may run on any thread. */
static int find_library(regex_library_t *out) {
  void *handle = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
  const struct {
    const char *name;
    void *to;
  } functions[] = {{"pcre2_compile_8", &out->compile},
                   {"pcre2_match_data_create_from_pattern_8", &out->create},
                   {"pcre2_match_8", &out->match},
                   {"pcre2_get_error_message_8", &out->message},
                   {"pcre2_match_data_free_8", &out->free_match},
                   {"pcre2_code_free_8", &out->free_code}};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *found = handle ? dlsym(handle, functions[i].name) : NULL;
    if (!found) return 0;
    *(void **)functions[i].to = found;
  }
  return 1;
}

/* The state of a node. */
typedef struct regex_t {
  regex_library_t pcre;
  regex_code_t *code;
} regex_t;

static void regex_destroy(void *state) {
  regex_t *regex = state;
  if (regex->code) regex->pcre.free_code(regex->code);
  free(regex);
}

static tenon_status_t regex_compile(tenon_node_t *node, regex_t *regex) {
  const tenon_value_t *pattern = &node->attrs[0];
  const uint32_t options = REGEX_UTF | REGEX_ANCHORED | REGEX_END_ANCHORED;
  uint8_t text[REGEX_MESSAGE] = "";
  int error = 0;
  size_t at = 0;
  if (!find_library(&regex->pcre))
    return tenon_fail(node, TENON_UNIMPLEMENTED,
                      "libpcre2-8.so.0 is not installed: on Debian, install libpcre2-8-0");
  regex->code = regex->pcre.compile((const uint8_t *)pattern->as.s, pattern->count, options, &error,
                                    &at, NULL);
  if (regex->code) return TENON_OK;
  regex->pcre.message(error, text, sizeof text);
  return tenon_fail(node, TENON_INVALID, "pattern '%.*s': byte %lld: %s", (int)pattern->count,
                    pattern->as.s, (long long)at, (const char *)text);
}

static tenon_status_t regex_create(tenon_node_t *node) {
  regex_t *regex = calloc(1, sizeof *regex);
  if (!regex) return tenon_fail(node, TENON_MEMORY, "out of memory for a regular expression");
  const tenon_status_t status = regex_compile(node, regex);
  if (status == TENON_OK)
    node->state = regex;
  else
    regex_destroy(regex);
  return status;
}

static tenon_status_t match_all(tenon_call_t *call, const regex_t *regex, regex_match_t *match) {
  const tenon_string_t *x = call->inputs[0]->data;
  uint8_t *to = call->outputs[0]->data;
  uint8_t text[REGEX_MESSAGE] = "";
  const int64_t count = tenon_count(call->inputs[0]);
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *data = (const uint8_t *)(x[i].data ? x[i].data : "");
    const int found = regex->pcre.match(regex->code, data, (size_t)x[i].size, 0, 0, match, NULL);
    to[i] = found >= 0;
    if (found >= REGEX_NO_MATCH) continue;
    regex->pcre.message(found, text, sizeof text);
    return tenon_fail(call, TENON_INVALID, "string %lld cannot be matched: %s", (long long)i,
                      (const char *)text);
  }
  return TENON_OK;
}

static tenon_status_t regex_run(tenon_call_t *call) {
  const regex_t *regex = call->state;
  regex_match_t *match = regex->pcre.create(regex->code, NULL);
  if (!match) return tenon_fail(call, TENON_MEMORY, "out of memory for a match");
  const tenon_status_t status = match_all(call, regex, match);
  regex->pcre.free_match(match);
  return status;
}

static tenon_status_t regex_infer(tenon_infer_t *infer) {
  return out_like(infer->outputs[0], infer->inputs[0]);
}

/* clang-format off */
TENON_ITEMS(core_regex,
  TENON_OP("regex_full_match(Tensor x, *, str pattern='') -> Tensor",
    TENON_DOC("Whether a regular expression matches each string as a whole. "
              "Needs the library PCRE2 at run time."),
    TENON_TYPES("x: string; out = bool"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(regex_infer),
    TENON_STATE(regex_create, regex_destroy),
    TENON_KERNEL("cpu", regex_run)))
/* clang-format on */
