/* Schemas: the parsed form of `ns::name.overload(Tensor x, ...) -> ...`, docs/contract.md.  Made at
 * load by the registry, constant afterwards; everything lives in the arena that parsing was
 * given. */
#ifndef TN_CORE_SCHEMA_H
#define TN_CORE_SCHEMA_H

#include <stdbool.h>
#include <tenon/op.h>

#include "base/arena.h"

typedef struct tn_argument_t { /* an input, an attribute or a result */
  const char *name;
  uint32_t
      /* inputs and results: TENON_KIND_TENSOR or TENON_KIND_TENSORS; attributes: their kind */
      kind;
  bool is_tensor;   /* an input or a result */
  bool is_optional; /* "?" */
  bool is_keyword;  /* stands after "*" */
  bool is_open;     /* "**": takes what the schema does not name, as texts "name=value" */
  bool is_host;     /* "@host" */
  bool is_written;  /* "!" */
  bool is_scalar;   /* attribute of type scalar: kind is FLOAT, values may be BOOL, INT or FLOAT */
  bool has_default;
  char mark;          /* alias mark, 0: none */
  int32_t count;      /* lists: number of elements stated by the schema, -1: any */
  int32_t count_attr; /* lists of tensors: the int attribute that states their number, -1: none */
  int32_t index;      /* among the inputs, the attributes or the results */
  uint32_t choice_count;
  const char *const *choices;
  tenon_value_t value; /* default; kind NONE when optional and not given */
} tn_argument_t;

typedef struct tn_schema_t {
  const char *text;
  const char *ns;
  const char *name;
  const char *overload; /* overload: "" when there is none */
  const char *full;     /* "ns::name" or "ns::name.overload" */
  uint32_t argument_count;
  uint32_t input_count;
  uint32_t attr_count;
  uint32_t output_count;
  const tn_argument_t *const *arguments; /* inputs and attributes in the schema's order */
  const tn_argument_t *inputs;
  const tn_argument_t *attrs;
  const tn_argument_t *outputs;
  const tenon_value_t
      *defaults;    /* attr_count values; kind NONE where a required attribute has none */
  bool needs_attrs; /* some attribute has no default and is not optional */
} tn_schema_t;

/* Parses; `library` is the namespace where the text states none.  A failure's message has the text,
 * the column (from 1), what was expected and what was found. */
tenon_status_t tn_schema_parse(const char *text, const char *library, tn_arena_t *arena,
                               tn_schema_t *out_schema);
/* Index among inputs, attributes or results by name; -1: absent. */
int32_t tn_schema_input(const tn_schema_t *schema, const char *name, size_t size);
int32_t tn_schema_attr(const tn_schema_t *schema, const char *name, size_t size);
int32_t tn_schema_output(const tn_schema_t *schema, const char *name, size_t size);
/* Is this text a name of the contract ([A-Za-z_][A-Za-z0-9_]*)? */
bool tn_is_name(const char *text, size_t size);

#endif
