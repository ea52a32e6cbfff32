/* A library that is being defined: its operators, its offences, and its kernels for operators of
 * other libraries. */
#ifndef TN_REGISTRY_DEFINITION_H
#define TN_REGISTRY_DEFINITION_H

#include "base/map.h"
#include "base/text.h"
#include "operator/library.h"

/* Flags of tn_registry_add. The low four bits say what happens to an existing kernel that a new
 * kernel would replace: a library may replace it; a program must not replace one, or it must. */
enum {
  TN_OVERRIDE_MAY,
  TN_OVERRIDE_NEVER,
  TN_OVERRIDE_MUST,
  TN_ADD_UNLOADABLE = 16,
  TN_ADD_ISOLATED = 32,
};

/* Kernels that a library adds to an operator that is defined already. */
typedef struct tn_extension_t {
  tenon_op_t *op;
  tn_kernel_t *first;
  /* `first` to `last` are consecutive in the operator's list. */
  tn_kernel_t *last;
  /* The items that state the kernels; they live as long as the library. NULL: the operator belongs
   * to the same library. */
  const tenon_item_t *items;
  int override;
} tn_extension_t;

/* Kernels for an operator that no library defines yet. */
typedef struct tn_dangling_t {
  tn_library_t *library;
  const char *op;
  const tenon_item_t *items; /* items of the extension, which live as long as the library */
  int override;
  /* Why the kernels do not fit the operator that exists; NULL: it does not exist yet, or memory ran
   * out. */
  const char *reason;
} tn_dangling_t;

/* The declarations of one operator, parsed after all its items were read. */
typedef struct tn_texts_t {
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
  /* The last kernel item was rejected, so a missing kernel is not reported as well. */
  bool has_bad_kernel;
} tn_texts_t;

typedef struct tn_draft_t {
  tenon_op_t *op;
  tn_texts_t texts;
} tn_draft_t;

typedef struct tn_definition_t {
  tn_library_t *library;
  tn_text_t *offences;                   /* one per line */
  tenon_op_t *(*find)(const char *name); /* finds a registered operator */
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
  int override;   /* TN_OVERRIDE_... */
  tn_map_t names; /* operators that this library has defined so far */
  /* The operator that the next items belong to. NULL: none, or its schema is bad and its items are
   * skipped. */
  tenon_op_t *op;
  tn_extension_t *extension;
  tenon_node_fn open;
  tenon_node_fn kernel_prepare;
  tenon_free_fn close;
  tenon_free_fn kernel_release;
  int depth; /* number of open groups of items */
  bool has_op;
  bool failed;         /* memory ran out */
  tenon_status_t code; /* status of the only offence; INVALID for several */
  size_t offence_count;
} tn_definition_t;

/* Fills the definition. Returns false when there is any offence. The caller takes or frees the
 * arrays. */
bool tn_define(tn_definition_t *definition, const tenon_descriptor_t *descriptor, const char *path);
/* Adds the kernels of an extension whose operator exists now. Returns false when there is any
 * offence. */
bool tn_define_extension(tn_definition_t *definition, const tn_dangling_t *dangling);
/* Runs the library's TENON_OPEN function. Returns false if that function fails. */
bool tn_definition_open(tn_definition_t *definition);
void tn_definition_offend(tn_definition_t *definition, tenon_status_t code, const char *format, ...)
    TENON_FORMAT(3, 4);
/* Checks the head of a descriptor: sizes, version, layout, features, name. Appends the offences,
 * and returns false when there are any. */
bool tn_descriptor_check(const tenon_descriptor_t *descriptor, tn_text_t *offences);

/* for definition_kernel.c */

/* The operator that the items belong to now. NULL: its schema is bad, or it is not defined yet. */
tenon_op_t *tn_definition_target(const tn_definition_t *definition);
/* Turns the failure of a parser into an offence: the parser's message, with the operator's name if
 * the message lacks it. Returns false if `status` is a failure. */
bool tn_definition_check(tn_definition_t *definition, tenon_status_t status);
/* Allocates memory in an arena. When it returns NULL, it has added an offence. */
void *tn_definition_room(tn_definition_t *definition, tn_arena_t *arena, size_t size);
const char *tn_definition_text(tn_definition_t *definition, tn_arena_t *arena, const char *text);

/* Frees an operator, its states and its table. */
void tn_op_free(tenon_op_t *op);

#endif
