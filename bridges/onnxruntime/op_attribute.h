/* Attributes as objects: those that a library reads while shapes are inferred, and those that it
 * creates for standard operators. */
#ifndef BRIDGES_ONNXRUNTIME_OP_ATTRIBUTE_H
#define BRIDGES_ONNXRUNTIME_OP_ATTRIBUTE_H

#include <stdbool.h>
#include <tenon/op.h>

#include "common/ort_interface.h"

struct OrtOpAttr {
  OrtOpAttr *next;
  char *name;
  ort_attribute_t type;
  tenon_string_t text; /* of an attribute of a node: read as what the library asks for */
  size_t count;        /* elements, or bytes of a string */
  int64_t *ints;       /* INT, INTS */
  float *floats;       /* FLOAT, FLOATS */
  char *string;        /* STRING */
  char **strings;      /* STRINGS: one block */
};

/* Makes the attribute of a node. `text` must outlive it. */
OrtStatus *op_attribute_of_text(const char *name, tenon_string_t text, OrtOpAttr **out);
void op_attribute_link(OrtOpAttr *attribute, OrtOpAttr **list);
void op_attribute_release_all(OrtOpAttr *list);

OrtStatus *ort_CreateOpAttr(const char *name, const void *data, int count, ort_attribute_t type,
                            OrtOpAttr **out);
void ort_ReleaseOpAttr(OrtOpAttr *attribute);
OrtStatus *ort_ReadOpAttr(const OrtOpAttr *attribute, ort_attribute_t type, void *data, size_t size,
                          size_t *out);
OrtStatus *ort_OpAttr_GetType(const OrtOpAttr *attribute, ort_attribute_t *out);
OrtStatus *ort_OpAttr_GetName(const OrtOpAttr *attribute, const char **out);

#endif
