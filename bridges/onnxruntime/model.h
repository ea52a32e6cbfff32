/* Models of one node, in the format of ONNX. */
#ifndef BRIDGES_ONNXRUNTIME_MODEL_H
#define BRIDGES_ONNXRUNTIME_MODEL_H

#include <stdbool.h>

#include "op_attribute.h"

typedef struct model_t { /* bytes of a message */
  uint8_t *data;
  size_t size;
  size_t capacity;
  bool has_failed; /* Memory is out. */
} model_t;

typedef struct model_node_t {
  const char *name;
  const char *domain;
  int version;
  const model_t *attributes;
  const uint8_t *elements; /* UNDEFINED: the input is absent */
  const uint8_t *ranks;
  uint32_t in_count;
  uint32_t out_count;
} model_node_t;

/* Adds an attribute to the fields of a node. */
void model_add_attribute(model_t *fields, const OrtOpAttr *attribute);
/* Writes a model whose inputs are those of the node that are present. */
void model_write(model_t *model, const model_node_t *node);
void model_clear(model_t *model);

#endif
