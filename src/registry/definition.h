/* A library that is being defined: operators in the making, offences, and kernels for operators
 * of other libraries. */
#ifndef TN_REGISTRY_DEFINITION_H
#define TN_REGISTRY_DEFINITION_H

#include "base/map.h"
#include "base/text.h"
#include "operator/library.h"

/* Kernels that are there already: libraries may take their place, programs say whether they mean
 * it. */
enum {
  TN_OVERRIDE_MAY,
  TN_OVERRIDE_NEVER,
  TN_OVERRIDE_MUST,
  TN_ADD_UNLOADABLE = 16,
  TN_ADD_ISOLATED = 32,
};

typedef struct tn_extension_t { /* kernels added to an operator of another library */
  tenon_op_t *op;
  tn_kernel_t *first;
  tn_kernel_t *last; /* a piece of the operator's list */
  const tenon_item_t
      *items; /* that state them, which live as long as the library; NULL: of an own operator */
  int override;
} tn_extension_t;

typedef struct tn_dangling_t { /* kernels for an operator that no library defines yet */
  tn_library_t *library;
  const char *op;
  const tenon_item_t *items; /* the extension's, which live as long as the library */
  int override;
  const char *reason; /* why they did not fit when the operator came; NULL: it is not there */
} tn_dangling_t;

typedef struct tn_texts_t { /* of one operator, parsed when all are there */
  const char *types;
  const char *shapes;
  const char *where;
  const char *gradient;
  const char *batching;
  const char *sharding;
  const char *reuse;
  const char *reduces;
  const char *uses;
  const char *body;
  const char *samples;
  bool has_bad_kernel; /* said already: its absence is no offence of its own */
} tn_texts_t;

typedef struct tn_draft_t {
  tenon_op_t *op;
  tn_texts_t texts;
} tn_draft_t;

typedef struct tn_definition_t {
  tn_library_t *library;
  tn_text_t *offences;                   /* one a line */
  tenon_op_t *(*find)(const char *name); /* operators that exist */
  void (*name_stubs)(const char *like, tn_text_t *text);
  tn_draft_t *drafts;
  size_t count;
  size_t capacity;
  tn_extension_t *extensions;
  size_t extension_count;
  size_t extension_capacity;
  tn_dangling_t *dangling;
  size_t dangling_count;
  size_t dangling_capacity;
  int override;   /* of kernels that are there: TN_OVERRIDE_... */
  tn_map_t names; /* operators of this library so far */
  tenon_op_t *op; /* that items belong to now; NULL: none, or a bad one whose items are skipped */
  tn_extension_t *extension;
  tenon_node_fn open;
  tenon_node_fn kernel_prepare;
  tenon_free_fn close;
  tenon_free_fn kernel_release;
  int depth; /* groups of items that are open */
  bool has_op;
  bool failed;         /* failed: out of memory */
  tenon_status_t code; /* of the only offence, INVALID for several */
  size_t offence_count;
} tn_definition_t;

/* Fills the definition; false when there is any offence.  Its arrays are the caller's to take or
 * free. */
bool tn_define(tn_definition_t *definition, const tenon_descriptor_t *descriptor, const char *path);
/* Adds the kernels of an extension whose operator has come. */
bool tn_define_extension(tn_definition_t *definition, const tn_dangling_t *dangling);
/* Runs the library's open hook, code of its own; false when it refused. */
bool tn_definition_open(tn_definition_t *definition);
void tn_definition_offend(tn_definition_t *definition, tenon_status_t code, const char *format, ...)
    TENON_FORMAT(3, 4);
/* Checks the head of a descriptor: sizes, version, layout, features, name.  Appends offences; false
 * when there are any. */
bool tn_descriptor_check(const tenon_descriptor_t *descriptor, tn_text_t *offences);

/* for definition_kernel.c */

/* The operator that items belong to now; NULL: a bad one, or one that is not there yet. */
tenon_op_t *tn_definition_target(const tn_definition_t *definition);
/* Takes the status of a parser: its message becomes the offence, after the operator's name. */
bool tn_definition_check(tn_definition_t *definition, tenon_status_t status);
/* Memory in an arena; NULL is an offence already. */
void *tn_definition_room(tn_definition_t *definition, tn_arena_t *arena, size_t size);
const char *tn_definition_text(tn_definition_t *definition, tn_arena_t *arena, const char *text);

/* Frees an operator with its states. */
void tn_op_free(tenon_op_t *op);

#endif
