/* Core operators as nodes of ONNX's own operators. A match says which row of the tables fits a
 * node; export.c asks for it before it writes anything, so that all nodes without one are reported
 * together. */
#ifndef TN_ONNX_STANDARD_H
#define TN_ONNX_STANDARD_H

#include "base/text.h"
#include "import/onnx/export.h"

enum { TN_STANDARD_ITEMS = 24 };

typedef struct tn_words_t { /* A part of a row's text. */
  const char *text;
  size_t size;
} tn_words_t;

/* An attribute of the core operator that becomes one of the ONNX node. */
typedef struct tn_standard_attr_t {
  tn_words_t name;   /* in ONNX */
  tn_words_t choice; /* the value in ONNX of a choice that has another name there; size 0: none */
  uint32_t index;    /* in the schema */
} tn_standard_attr_t;

typedef struct tn_standard_match_t {
  const char *left;                     /* the ONNX side of the row */
  int64_t since;                        /* the operator set that has these operators */
  tn_words_t inputs[TN_STANDARD_ITEMS]; /* names in the row, one for each input of the operator */
  uint32_t input_count;
  tn_standard_attr_t attrs[TN_STANDARD_ITEMS];
  uint32_t attr_count;
} tn_standard_match_t;

/* Finds the row of a node of a core operator. Returns false with a reason if no row fits. */
bool tn_standard_match(const tn_node_t *node, tn_standard_match_t *out_match, tn_text_t *why);

/* A node that is being written. */
typedef struct tn_standard_t {
  tn_export_t *export;
  const tenon_graph_t *graph;
  const tn_node_t *node;
  const tn_standard_match_t *match;
  const char *name;           /* of the node in the file */
  const char *const *inputs;  /* names of all operands, one after the other */
  const char *const *outputs; /* "" for a result that nobody reads */
} tn_standard_t;

/* Writes the nodes of a match, the last one first. */
tenon_status_t tn_standard_write(const tn_standard_t *site);

#endif
