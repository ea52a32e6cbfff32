/* A small model that uses operators: a chain of them, written as an ONNX file.  Called by model and
 * by new. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct model_t {
  texts_t ops;    /* "ns::name": the first result of each is the first input of the next */
  texts_t inputs; /* NAME=DTYPE[EXTENT,...] of each tensor argument that no other operator gives */
  texts_t attrs;  /* NAME=VALUE, to every operator that has one of that name */
  const char *path;
} model_t;

/* Writes it.  Inputs have the names of arguments, outputs those of the last operator's results. */
bool model_write(const model_t *model, text_t *why);
void model_free(model_t *model);

#endif
