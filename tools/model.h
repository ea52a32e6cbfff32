/* A small ONNX model made of a chain of operators. Called by the verbs model and new. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct model_t {
  texts_t ops; /* "ns::name"; the first result of each is the first input of the next */
  /* NAME=DTYPE[EXTENT,...] for each tensor argument that no operator of the chain produces */
  texts_t inputs;
  texts_t attrs; /* NAME=VALUE, set on every operator with an attribute of this name */
  const char *path;
} model_t;

/* Writes the model. Its inputs have the names of arguments, its outputs the names of the last
 * operator's results. */
bool model_write(const model_t *model, text_t *why);
void model_free(model_t *model);

#endif
