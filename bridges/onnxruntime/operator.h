/* The operators of a loaded library. Several OrtCustomOp of one name are one operator of Tenon, and
 * each of them is an overload that serves certain dtypes.
 *
 * Each file calls only files that are listed before it:
 *   status.c        statuses
 *   element.c       element types
 *   shape_info.c    element types and shapes as objects
 *   memory.c        allocators
 *   value.c         tensors as objects
 *   text.c          strings of tensors
 *   key_values.c    lists of names and values
 *   logger.c        messages of libraries
 *   attribute.c     attributes
 *   registration.c  domains
 *   operator.c      overloads and their dtypes
 *   info.c          what a kernel learns when it is created
 *   kernel.c        kernels
 *   context.c       what a kernel uses while it runs
 *   invoke.c        standard operators that kernels call
 *   infer.c         dtypes and shapes of results
 *   table.c         the table of functions that libraries call
 *   run.c           calls
 *   describe.c      declares the operators to Tenon
 *   library.c       opens a library
 *   bridge.c        the entry */
#ifndef BRIDGES_ONNXRUNTIME_OPERATOR_H
#define BRIDGES_ONNXRUNTIME_OPERATOR_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "common/ort_interface.h"
#include "registration.h"

enum { ARGUMENTS_MOST = 64 };

/* The attribute of a schema which is not the library's: the number of results in the variadic
 * output. */
#define ATTRIBUTE_COUNT "_count"

typedef struct overload_t {
  const OrtCustomOp *op;
  uint32_t version; /* of the structure */
  int since;        /* the versions of the domain that it serves */
  int until;
  uint8_t inputs[ARGUMENTS_MOST]; /* element types; UNDEFINED: any */
  uint8_t outputs[ARGUMENTS_MOST];
  uint8_t aliases[ARGUMENTS_MOST]; /* 1 + the input that an output starts as; 0: none */
  bool has_aliases;
} overload_t;

typedef struct operator_t {
  struct library_t *library;
  const char *domain; /* of the library */
  char *name;         /* with its namespace: com_acme::Foo */
  const char *type;   /* as the library spells it */
  overload_t *overloads;
  size_t overload_count;
  size_t in_count; /* arguments; a variadic one counts once */
  size_t out_count;
  bool has_input_list; /* The last input is variadic. */
  bool has_output_list;
  uint8_t in_kinds[ARGUMENTS_MOST]; /* ORT_REQUIRED, ORT_OPTIONAL, ORT_VARIADIC */
  uint8_t out_kinds[ARGUMENTS_MOST];
  int in_least; /* the least number of items of the variadic input, and output */
  int out_least;
  int since; /* the version of the domain in which the operator exists first */
} operator_t;

typedef struct library_t {
  struct library_t *next;
  char *path;
  char *ns; /* for operators without a domain */
  void *handle;
  OrtSessionOptions options;
  operator_t *ops;
  size_t op_count;
  tenon_descriptor_t descriptor;
  tenon_item_t *items;
  size_t item_count;
  char **texts; /* the texts that the items point to */
  size_t text_count;
} library_t;

/* Reads the operators from the domains that the library has registered. Returns false with the
 * reason in `why`. */
bool operators_read(library_t *library, char *why, size_t capacity);
void operators_free(library_t *library);
/* Finds the operator of the library that Tenon knows by this handle. */
const operator_t *operator_find(const library_t *library, const tenon_op_t *op);
/* Finds the overload for element types of the inputs (UNDEFINED: absent). Items of the variadic
 * input come last. Returns NULL if there is none. */
const overload_t *operator_choose(const operator_t *op, const uint8_t *elements, size_t count);
/* Describes the dtypes of a call and those of the overloads, for the message of a call that no
 * overload serves. */
void operator_explain(const operator_t *op, const uint8_t *elements, size_t count, char *why,
                      size_t capacity);

#endif
