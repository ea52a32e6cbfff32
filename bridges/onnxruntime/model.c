/* Writes models of one node. The numbers are those of the fields in onnx.proto. Called by invoke.c
 * alone. A message inside another is written to a buffer first, because its size precedes it. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, BYTES = 2, FIXED32 = 5 }; /* wire types */

void model_clear(model_t *model) {
  free(model->data);
  *model = (model_t){0};
}

static void append_bytes(model_t *model, const void *data, size_t size) {
  if (model->has_failed) return;
  if (model->size + size > model->capacity) {
    const size_t capacity = 2 * (model->size + size) + 64;
    uint8_t *grown = realloc(model->data, capacity);
    model->has_failed = !grown;
    if (!grown) return;
    model->data = grown;
    model->capacity = capacity;
  }
  if (size) memcpy(model->data + model->size, data, size);
  model->size += size;
}

static void append_varint(model_t *model, uint64_t number) {
  do {
    const uint8_t byte = (uint8_t)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
    append_bytes(model, &byte, 1);
    number >>= 7;
  } while (number);
}

static void append_int(model_t *model, unsigned field, int64_t number) {
  append_varint(model, field << 3 | VARINT);
  append_varint(model, (uint64_t)number);
}

static void append_field(model_t *model, unsigned field, const void *data, size_t size) {
  append_varint(model, field << 3 | BYTES);
  append_varint(model, size);
  append_bytes(model, data, size);
}

static void append_float(model_t *model, unsigned field, float number) {
  append_varint(model, field << 3 | FIXED32);
  append_bytes(model, &number, sizeof number);
}

static void append_text(model_t *model, unsigned field, const char *text) {
  append_field(model, field, text, strlen(text));
}

/* Adds a message as a field, and clears it. */
static void append_message(model_t *model, unsigned field, model_t *message) {
  model->has_failed |= message->has_failed;
  append_field(model, field, message->data, message->size);
  model_clear(message);
}

void model_add_attribute(model_t *fields, const OrtOpAttr *attribute) {
  enum { NAME = 1, F = 2, I = 3, S = 4, FLOATS = 7, INTS = 8, STRINGS = 9, TYPE = 20 };
  static const uint8_t types[] = {0, 2, 7, 1, 6, 3, 8}; /* of ort_attribute_t */
  model_t message = {0};
  append_text(&message, NAME, attribute->name);
  append_int(&message, TYPE, types[attribute->type]);
  const bool is_list =
      attribute->type == ORT_ATTRIBUTE_INTS || attribute->type == ORT_ATTRIBUTE_FLOATS;
  for (size_t i = 0; attribute->ints && i < attribute->count; i++)
    append_int(&message, is_list ? INTS : I, attribute->ints[i]);
  for (size_t i = 0; attribute->floats && i < attribute->count; i++)
    append_float(&message, is_list ? FLOATS : F, attribute->floats[i]);
  if (attribute->string) append_field(&message, S, attribute->string, attribute->count);
  for (size_t i = 0; attribute->strings && i < attribute->count; i++)
    append_text(&message, STRINGS, attribute->strings[i]);
  append_message(fields, 5, &message);
}

/* From 24 on, the numbers of ONNX's element types differ from those of ONNX Runtime. */
static int64_t onnx_element(uint8_t element) {
  static const uint8_t last[] = {25, 26, 24};
  return element < 24 ? element : last[element - 24];
}

static void add_graph_input(model_t *graph, uint32_t index, uint8_t element, uint8_t rank) {
  model_t shape = {0};
  model_t tensor = {0};
  model_t type = {0};
  model_t value = {0};
  char name[40];
  for (unsigned d = 0; d < rank; d++) {
    model_t extent = {0};
    snprintf(name, sizeof name, "d%u_%u", index, d);
    append_text(&extent, 2, name);
    append_message(&shape, 1, &extent);
  }
  append_int(&tensor, 1, onnx_element(element));
  append_message(&tensor, 2, &shape);
  append_message(&type, 1, &tensor);
  snprintf(name, sizeof name, "x%u", index);
  append_text(&value, 1, name);
  append_message(&value, 2, &type);
  append_message(graph, 11, &value);
}

static void add_graph_node(model_t *graph, const model_node_t *node) {
  model_t message = {0};
  char name[40];
  for (uint32_t i = 0; i < node->in_count; i++) {
    snprintf(name, sizeof name, "x%u", i);
    append_text(&message, 1, node->elements[i] ? name : "");
  }
  for (uint32_t i = 0; i < node->out_count; i++) {
    snprintf(name, sizeof name, "y%u", i);
    append_text(&message, 2, name);
  }
  append_text(&message, 4, node->name);
  append_text(&message, 7, node->domain);
  message.has_failed |= node->attributes->has_failed;
  append_bytes(&message, node->attributes->data, node->attributes->size);
  append_message(graph, 1, &message);
}

void model_write(model_t *model, const model_node_t *node) {
  model_t graph = {0};
  model_t opset = {0};
  char name[40];
  add_graph_node(&graph, node);
  append_text(&graph, 2, "one_node");
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->elements[i]) add_graph_input(&graph, i, node->elements[i], node->ranks[i]);
  for (uint32_t i = 0; i < node->out_count; i++) {
    model_t value = {0};
    snprintf(name, sizeof name, "y%u", i);
    append_text(&value, 1, name);
    append_message(&graph, 12, &value);
  }
  append_text(&opset, 1, node->domain);
  append_int(&opset, 2, node->version);
  append_int(model, 1, 10); /* the version of the format */
  append_message(model, 7, &graph);
  append_message(model, 8, &opset);
}
