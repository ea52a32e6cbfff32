/* Schemas: the parsed form of `ns::name.overload(Tensor x, ...) -> ...` (docs/contract.md). Created
 * by the registry when a library is loaded and constant afterwards; everything is allocated in the
 * arena that the parser was given. */
#ifndef TN_CORE_SCHEMA_H
#define TN_CORE_SCHEMA_H

#include <stdbool.h>
#include <tenon/op.h>

#include "base/arena.h"

/* An input, an attribute or a result. */
typedef struct tn_argument_t {
  const char *name;
  /* inputs and results: TENON_KIND_TENSOR or TENON_KIND_TENSORS; attributes: the declared kind */
  uint32_t kind;
  bool is_tensor;   /* an input or a result */
  bool is_optional; /* "?" */
  bool is_keyword;  /* stands after "*" */
  /* "**": accepts arguments that the schema does not name, as strings "name=value" */
  bool is_open;
  bool is_host;    /* "@host" */
  bool is_written; /* "!" */
  /* attribute of type scalar: `kind` is FLOAT, but values may be BOOL, INT or FLOAT */
  bool is_scalar;
  bool has_default;
  char mark;          /* alias mark, 0: none */
  int32_t count;      /* lists: the length stated by the schema; -1: any */
  int32_t count_attr; /* lists of tensors: the int attribute that states the length; -1: none */
  int32_t index;      /* among the inputs, the attributes or the results */
  uint32_t choice_count;
  const char *const *choices;
  tenon_value_t value; /* default; kind NONE if optional and absent */
} tn_argument_t;

typedef struct tn_schema_t {
  const char *text;
  const char *ns;
  const char *name;
  const char *overload; /* "" if there is none */
  const char *full;     /* "ns::name" or "ns::name.overload" */
  uint32_t argument_count;
  uint32_t input_count;
  uint32_t attr_count;
  uint32_t output_count;
  const tn_argument_t *const *arguments; /* inputs and attributes in the order of the schema */
  const tn_argument_t *inputs;
  const tn_argument_t *attrs;
  const tn_argument_t *outputs;
  /* attr_count values; kind NONE for a required attribute */
  const tenon_value_t *defaults;
  bool needs_attrs; /* some attribute is required */
} tn_schema_t;

/* Parses a schema. `library` is the namespace if the text states none. The error message contains
 * the text, the column (from 1), what was expected and what was found. */
tenon_status_t tn_schema_parse(const char *text, const char *library, tn_arena_t *arena,
                               tn_schema_t *out_schema);
/* The index among inputs, attributes or results; -1 if there is no such name. */
int32_t tn_schema_input(const tn_schema_t *schema, const char *name, size_t size);
int32_t tn_schema_attr(const tn_schema_t *schema, const char *name, size_t size);
/* Whether the last attribute accepts all arguments that the schema does not name. */
bool tn_schema_is_open(const tn_schema_t *schema);
int32_t tn_schema_output(const tn_schema_t *schema, const char *name, size_t size);
/* Whether the text is a valid name ([A-Za-z_][A-Za-z0-9_]*). */
bool tn_is_name(const char *text, size_t size);

#endif
