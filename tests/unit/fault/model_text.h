/* Builds ONNX models from a short text, for tests of faulty models. Statements end with ';':
 *   opset N
 *   in NAME TYPE DIMS
 *   weight NAME TYPE DIMS BYTES
 *   file NAME DIMS LOCATION
 *   out NAME
 *   node OP[@DOMAIN] INPUT... > OUTPUT... [ATTRIBUTE=i:1 | f:1.5 | s:text | l:1,2]...
 *
 * TYPE is ONNX's number (1: float, 6: int32, 7: int64, 9: bool). DIMS is "2,3", "n,3", or "-" for a
 * scalar. "_" is an absent input. Invariant: the result is a well-formed message; whether the model
 * makes sense is up to the test. */
#ifndef TENON_TESTS_MODEL_TEXT_H
#define TENON_TESTS_MODEL_TEXT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct message_t {
  unsigned char data[8192];
  size_t size;
} message_t;

static inline void put_varint(message_t *m, uint64_t value) {
  for (; value > 127; value >>= 7)
    m->data[m->size++] = (unsigned char)(value | 128);
  m->data[m->size++] = (unsigned char)value;
}

static inline void put_number(message_t *m, unsigned field, int64_t value) {
  put_varint(m, field << 3);
  put_varint(m, (uint64_t)value);
}

static inline void put_bytes(message_t *m, unsigned field, const void *bytes, size_t size) {
  put_varint(m, field << 3 | 2);
  put_varint(m, size);
  if (bytes)
    memcpy(m->data + m->size, bytes, size);
  else
    memset(m->data + m->size, 0, size);
  m->size += size;
}

static inline void put_text(message_t *m, unsigned field, const char *text) {
  put_bytes(m, field, text, strlen(text));
}
static inline void put_message(message_t *m, unsigned field, const message_t *part) {
  put_bytes(m, field, part->data, part->size);
}

static inline void put_list(message_t *m, unsigned field, const char *list) {
  while (*list) { /* "2,3" */
    char *end;
    put_number(m, field, strtoll(list, &end, 10));
    list = end + (*end == ',');
  }
}

static inline void put_port(message_t *graph, unsigned field, const char *name, const char *type,
                            const char *dims) {
  message_t port = {.size = 0};
  message_t outer = {.size = 0};
  message_t tensor = {.size = 0};
  message_t shape = {.size = 0};
  put_text(&port, 1, name);
  for (const char *at = dims; at && *at && strcmp(dims, "-") != 0;) {
    message_t dim = {.size = 0};
    char word[40] = "";
    size_t size = strcspn(at, ",");
    memcpy(word, at, size < sizeof word - 1 ? size : sizeof word - 1);
    if (strspn(word, "-0123456789") == strlen(word))
      put_number(&dim, 1, strtoll(word, NULL, 10));
    else
      put_text(&dim, 2, word);
    put_message(&shape, 1, &dim);
    at += size + (at[size] == ',');
  }
  if (type) {
    put_number(&tensor, 1, strtoll(type, NULL, 10));
    put_message(&tensor, 2, &shape);
    put_message(&outer, 1, &tensor);
    put_message(&port, 2, &outer);
  }
  put_message(graph, field, &port);
}

static inline void put_attribute(message_t *node, char *word) {
  message_t attribute = {.size = 0};
  char *value = strchr(word, '=') + 1;
  char kind = *value;
  value[-1] = 0;
  value += 2;
  put_text(&attribute, 1, word);
  if (kind == 'i') put_number(&attribute, 3, strtoll(value, NULL, 10));
  if (kind == 's') put_text(&attribute, 4, value);
  if (kind == 'l') put_list(&attribute, 8, value);
  if (kind == 'f') {
    float number = strtof(value, NULL);
    put_varint(&attribute, 2 << 3 | 5);
    memcpy(attribute.data + attribute.size, &number, sizeof number);
    attribute.size += sizeof number;
  }
  put_number(&attribute, 20, kind == 'i' ? 2 : kind == 'f' ? 1 : kind == 's' ? 3 : 7);
  put_message(node, 5, &attribute);
}

static inline void put_tensor(message_t *graph, char **words, int is_file) {
  message_t tensor = {.size = 0};
  message_t entry = {.size = 0};
  const char *dims = words[is_file ? 2 : 3];
  if (strcmp(dims, "-") != 0) put_list(&tensor, 1, dims);
  put_number(&tensor, 2, is_file ? 1 : strtoll(words[2], NULL, 10));
  put_text(&tensor, 8, words[1]);
  if (is_file) {
    put_text(&entry, 1, "location");
    put_text(&entry, 2, words[3]);
    put_message(&tensor, 13, &entry);
    put_number(&tensor, 14, 1);
  } else {
    put_bytes(&tensor, 9, NULL, strtoull(words[4], NULL, 10));
  }
  put_message(graph, 5, &tensor);
}

static inline void put_node(message_t *graph, char **words, int count) {
  message_t node = {.size = 0};
  char *domain = strchr(words[1], '@');
  unsigned field = 1;
  if (domain) *domain++ = 0;
  for (int i = 2; i < count; i++) {
    if (strcmp(words[i], ">") == 0)
      field = 2;
    else if (strchr(words[i], '='))
      put_attribute(&node, words[i]);
    else
      put_text(&node, field, strcmp(words[i], "_") == 0 ? "" : words[i]);
  }
  put_text(&node, 4, words[1]);
  if (domain) put_text(&node, 7, domain);
  put_message(graph, 1, &node);
}

static inline void model_of(const char *text, message_t *out) {
  message_t graph = {.size = 0};
  message_t opset = {.size = 0};
  message_t custom = {.size = 0};
  int64_t version = 20;
  while (*text) {
    char line[400] = "";
    char *words[24];
    int count = 0;
    size_t size = strcspn(text, ";");
    memcpy(line, text, size < sizeof line - 1 ? size : sizeof line - 1);
    for (char *word = strtok(line, " "); word && count < 24; word = strtok(NULL, " "))
      words[count++] = word;
    text += size + (text[size] == ';');
    if (!count) continue;
    if (strcmp(words[0], "opset") == 0) version = strtoll(words[1], NULL, 10);
    if (strcmp(words[0], "in") == 0) put_port(&graph, 11, words[1], words[2], words[3]);
    if (strcmp(words[0], "out") == 0) put_port(&graph, 12, words[1], NULL, NULL);
    if (strcmp(words[0], "weight") == 0) put_tensor(&graph, words, 0);
    if (strcmp(words[0], "file") == 0) put_tensor(&graph, words, 1);
    if (strcmp(words[0], "node") == 0) put_node(&graph, words, count);
  }
  out->size = 0;
  put_number(out, 1, 9);
  put_text(&opset, 1, "");
  put_number(&opset, 2, version);
  put_message(out, 8, &opset);
  put_text(&custom, 1, "fault");
  put_number(&custom, 2, 1);
  put_message(out, 8, &custom);
  put_message(out, 7, &graph);
}

#endif
