/* The part of TensorFlow's C interface that kernels of bridges/tensorflow call, with attributes,
 * inputs and expected dtypes from the input of a fuzz target. The memory of each tensor and of each
 * text has exactly its size, so that the sanitizer sees accesses beyond it. */
#ifndef TN_FUZZ_TENSORFLOW_FRAMEWORK_H
#define TN_FUZZ_TENSORFLOW_FRAMEWORK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/operator.h"
#include "tensorflow/text.h"

enum { ATTRIBUTES_MOST = 32, NODE_INPUTS_MOST = 8, TENSOR_RANK_MOST = 4 };

typedef struct stream_t { /* The rest of the input; zeros follow its end. */
  const uint8_t *at;
  const uint8_t *end;
} stream_t;

struct tf_status_t {
  int code;
  char message[600];
};

typedef struct memory_t { /* Memory that several tensors share. */
  void *data;
  void (*release)(void *data, size_t size, void *argument);
  void *argument;
  size_t size;
  int uses;
} memory_t;

struct tf_tensor_t {
  int dtype;
  int rank;
  int64_t dims[TENON_RANK_MAX];
  memory_t *memory;
};

typedef struct named_value_t {
  char name[100];
  uint8_t fails;
  int64_t number;
  int32_t count; /* of a list */
  char *text;
  size_t text_size;
} named_value_t;

struct tf_construction_t {
  stream_t *stream;
  named_value_t values[ATTRIBUTES_MOST];
  int value_count;
  bool has_failed;
};

struct tf_context_t {
  stream_t *stream;
  int input_count;
  int output_count;
  tf_tensor_t *inputs[NODE_INPUTS_MOST];
  bool has_failed;
};

static uint8_t take_byte(stream_t *s) { return s->at < s->end ? *s->at++ : 0; }

/* ---- statuses ---- */

static tf_status_t *new_status(void) { return calloc(1, sizeof(tf_status_t)); }

static void delete_status_of_test(tf_status_t *status) { free(status); }

static void set_status(tf_status_t *status, int code, const char *message) {
  status->code = code;
  snprintf(status->message, sizeof status->message, "%s", message);
}

static int get_code(const tf_status_t *status) { return status->code; }

static const char *get_message(const tf_status_t *status) { return status->message; }

/* ---- tensors ---- */

static size_t size_of_dtype(int dtype) {
  static const uint8_t sizes[] = {0, 4, 8, 4,  1, 2, 1, TEXT_SIZE, 8, 8, 1, 1, 1, 4, 2,
                                  2, 2, 2, 16, 2, 8, 8, 4,         8, 1, 1, 1, 1, 1};
  return dtype >= 0 && (size_t)dtype < sizeof sizes ? sizes[dtype] : 1;
}

static size_t size_of_tensor(int dtype, const int64_t *dims, int rank) {
  size_t size = size_of_dtype(dtype);
  for (int d = 0; d < rank; d++)
    if (__builtin_mul_overflow(size, (size_t)dims[d], &size)) return SIZE_MAX / 2;
  return size;
}

static void delete_tensor(tf_tensor_t *tensor) {
  if (!tensor) return;
  memory_t *memory = tensor->memory;
  if (--memory->uses == 0) {
    if (memory->release)
      memory->release(memory->data, memory->size, memory->argument);
    else
      free(memory->data);
    free(memory);
  }
  free(tensor);
}

static void release_texts(void *data, size_t size, void *argument) {
  (void)argument;
  for (size_t i = 0; i < size / TEXT_SIZE; i++) {
    const unsigned char *element = (unsigned char *)data + i * TEXT_SIZE;
    if ((*element & 3) == 1) free((void *)(uintptr_t)text_read(element).data);
  }
  free(data);
}

static tf_tensor_t *new_tensor(int dtype, const int64_t *dims, int rank, void *data, size_t size,
                               void (*release)(void *, size_t, void *), void *argument) {
  tf_tensor_t *tensor = calloc(1, sizeof *tensor);
  memory_t *memory = calloc(1, sizeof *memory);
  if (!tensor || !memory) abort();
  *memory = (memory_t){data, release, argument, size, 1};
  tensor->dtype = dtype;
  tensor->rank = rank;
  tensor->memory = memory;
  for (int d = 0; d < rank; d++)
    tensor->dims[d] = dims[d];
  return tensor;
}

static tf_tensor_t *allocate_tensor(int dtype, const int64_t *dims, int rank, size_t size) {
  const size_t own = size_of_tensor(dtype, dims, rank);
  void *data = NULL;
  (void)size;
  if (own > (size_t)1 << 28 || posix_memalign(&data, 64, own + !own) != 0) return NULL;
  memset(data, 0, own + !own);
  return new_tensor(dtype, dims, rank, data, own, dtype == TF_STRING ? release_texts : NULL, NULL);
}

static int type_of_tensor(const tf_tensor_t *tensor) { return tensor->dtype; }
static int rank_of_tensor(const tf_tensor_t *tensor) { return tensor->rank; }
static int64_t extent_of_tensor(const tf_tensor_t *tensor, int axis) { return tensor->dims[axis]; }
static size_t bytes_of_tensor(const tf_tensor_t *tensor) { return tensor->memory->size; }
static void *data_of_tensor(const tf_tensor_t *tensor) { return tensor->memory->data; }

/* Makes `to` a tensor with the memory of `from`, as TensorFlow does if the sizes are equal. */
static void share_memory(const tf_tensor_t *from, int dtype, tf_tensor_t *to, const int64_t *dims,
                         int rank, tf_status_t *status) {
  set_status(status, TF_OK, "");
  if (size_of_tensor(dtype, dims, rank) != from->memory->size) {
    set_status(status, TF_INVALID_ARGUMENT, "the sizes differ");
    return;
  }
  memory_t *before = to->memory;
  to->memory = from->memory;
  to->memory->uses++;
  free(before->data);
  free(before);
  to->dtype = dtype;
  to->rank = rank;
  memcpy(to->dims, dims, (size_t)rank * sizeof *dims);
}

/* ---- attributes ---- */

/* Returns the value of an attribute, which is the same for each question. */
static named_value_t *find_value(tf_construction_t *construction, const char *name) {
  stream_t *s = construction->stream;
  int at = 0;
  while (at < construction->value_count && strcmp(construction->values[at].name, name) != 0)
    at++;
  named_value_t *value = &construction->values[at < ATTRIBUTES_MOST ? at : 0];
  if (at < construction->value_count || at == ATTRIBUTES_MOST) return value;
  construction->value_count++;
  snprintf(value->name, sizeof value->name, "%s", name);
  const uint8_t kind = take_byte(s);
  value->fails = kind == 255;
  value->number = kind < 250 ? (int8_t)kind : INT64_MIN + kind;
  value->count = kind & 15;
  value->text_size = take_byte(s);
  const size_t left = (size_t)(s->end - s->at);
  if (value->text_size > left) value->text_size = left;
  value->text = malloc(value->text_size + !value->text_size);
  if (!value->text) abort();
  if (value->text_size) memcpy(value->text, s->at, value->text_size);
  s->at += value->text_size;
  return value;
}

static named_value_t *read_value(tf_construction_t *construction, const char *name,
                                 tf_status_t *status) {
  named_value_t *value = find_value(construction, name);
  set_status(status, TF_OK, "");
  if (value->fails) set_status(status, TF_INVALID_ARGUMENT, "there is no such attribute");
  return value;
}

static void get_size_of_attribute(tf_construction_t *construction, const char *name,
                                  int32_t *out_count, int32_t *out_size, tf_status_t *status) {
  const named_value_t *value = read_value(construction, name, status);
  if (value->fails) return;
  *out_count = value->count;
  *out_size = value->text_size ? (int32_t)value->text_size : -1;
}

static void get_int(tf_construction_t *construction, const char *name, int64_t *out_value,
                    tf_status_t *status) {
  *out_value = read_value(construction, name, status)->number;
}

static void get_type(tf_construction_t *construction, const char *name, int *out_dtype,
                     tf_status_t *status) {
  *out_dtype = (int)read_value(construction, name, status)->number;
}

static void get_bool(tf_construction_t *construction, const char *name, unsigned char *out_value,
                     tf_status_t *status) {
  *out_value = (unsigned char)read_value(construction, name, status)->number;
}

static void get_ints(tf_construction_t *construction, const char *name, int64_t *out_values,
                     int count, tf_status_t *status) {
  const named_value_t *value = read_value(construction, name, status);
  for (int i = 0; i < count; i++)
    out_values[i] = (size_t)i < value->text_size ? (int8_t)value->text[i] : value->number;
}

static void get_string(tf_construction_t *construction, const char *name, char *out_text,
                       size_t capacity, tf_status_t *status) {
  const named_value_t *value = read_value(construction, name, status);
  const size_t size = value->text_size < capacity ? value->text_size : capacity;
  if (size) memcpy(out_text, value->text, size);
}

static void get_strings(tf_construction_t *construction, const char *name, char **out_texts,
                        size_t *out_sizes, int count, void *storage, size_t storage_size,
                        tf_status_t *status) {
  const named_value_t *value = read_value(construction, name, status);
  const size_t size = value->text_size < storage_size ? value->text_size : storage_size;
  const size_t each = count ? size / (size_t)count : 0;
  if (size) memcpy(storage, value->text, size);
  for (int i = 0; i < count; i++) {
    out_texts[i] = (char *)storage + (size_t)i * each;
    out_sizes[i] = each;
  }
}

static void fail_construction(tf_construction_t *construction, tf_status_t *status) {
  construction->has_failed = status->code != TF_OK;
}

/* ---- calls ---- */

static void fail_call(tf_context_t *context, tf_status_t *status) {
  context->has_failed = status->code != TF_OK;
}

static int count_inputs(tf_context_t *context) { return context->input_count; }
static int count_outputs(tf_context_t *context) { return context->output_count; }

static void get_input(tf_context_t *context, int input, tf_tensor_t **out_tensor,
                      tf_status_t *status) {
  const tf_tensor_t *from = context->inputs[input];
  set_status(status, TF_OK, "");
  tf_tensor_t *tensor = malloc(sizeof *tensor);
  if (!tensor) abort();
  *tensor = *from;
  tensor->memory->uses++;
  *out_tensor = tensor;
}

/* Most nodes expect f32; which other one the input says. */
static int get_expected_dtype(tf_context_t *context, int output) {
  const uint8_t dtype = take_byte(context->stream);
  (void)output;
  return dtype & 128 ? dtype & 31 : TF_FLOAT;
}

static void set_output_of_node(tf_context_t *context, int output, const tf_tensor_t *tensor,
                               tf_status_t *status) {
  (void)tensor;
  set_status(status, TF_OK, "");
  if (output >= context->output_count)
    set_status(status, TF_INTERNAL, "the node has no such output");
}

static tf_tensor_t *allocate_output_of_node(tf_context_t *context, int output, int dtype,
                                            const int64_t *dims, int rank, size_t size,
                                            tf_status_t *status) {
  set_output_of_node(context, output, NULL, status);
  if (status->code != TF_OK) return NULL;
  tf_tensor_t *made = allocate_tensor(dtype, dims, rank, size);
  if (!made) set_status(status, TF_RESOURCE_EXHAUSTED, "out of memory");
  return made;
}

/* TensorFlow lends the memory of an input that nothing else needs. */
static tf_tensor_t *forward_or_allocate(tf_context_t *context, const int *inputs, int input_count,
                                        int output, const int64_t *dims, int rank, int *out_input,
                                        tf_status_t *status) {
  const tf_tensor_t *from = context->inputs[inputs[0]];
  tf_tensor_t *made = NULL;
  *out_input = -1;
  if (input_count != 1) abort();
  if (from->memory->uses != 1)
    return allocate_output_of_node(context, output, from->dtype, dims, rank, 0, status);
  *out_input = inputs[0];
  get_input(context, inputs[0], &made, status);
  return made;
}

#endif
