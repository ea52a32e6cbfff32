/* The store of variables, and the kernels of operators that create, assign, read and destroy them;
 * operators.c has those that update them. */
#include "variable.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "proto.h"
#include "run.h"

/* Fields of a serialized ResourceHandleProto. */
enum { HANDLE_DEVICE = 1, HANDLE_CONTAINER = 2, HANDLE_NAME = 3 };

/* The container of handles that count their references. */
static const char counted[] = "|Anonymous|";

typedef struct variable_t {
  variable_key_t key;
  tf_tensor_t *value;
  tf_tensor_t *handle; /* NULL: the variable has a name, and lives until it is destroyed */
} variable_t;

static void (*serialize_handle)(tf_context_t *, int input, tf_buffer_t *out, tf_status_t *);
static void *(*move_tensor)(tf_tensor_t *); /* TF_TensorMaybeMove: NULL unless it is the last one */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t update_lock = PTHREAD_MUTEX_INITIALIZER;
static void *variables; /* a tree of variable_t */

void variable_lock_updates(void) { pthread_mutex_lock(&update_lock); }
void variable_unlock_updates(void) { pthread_mutex_unlock(&update_lock); }

/* ---- the store ------------------------------------------------------------------------------- */

static int compare_variables(const void *left, const void *right) {
  const variable_key_t *a = left; /* the first field of a variable */
  const variable_key_t *b = right;
  return strcmp(a->text, b->text);
}

static tenon_status_t write_key(const tf_buffer_t *handle, variable_key_t *out) {
  proto_text_t parts[3] = {{"", 0}, {"", 0}, {"", 0}};
  for (uint32_t i = 0; i < 3; i++)
    (void)proto_find(handle->data, handle->size, HANDLE_DEVICE + i, &parts[i]);
  const int written = snprintf(
      out->text, sizeof out->text, "%.*s|%.*s|%.*s", (int)(parts[0].size & 0xfff), parts[0].data,
      (int)(parts[1].size & 0xfff), parts[1].data, (int)(parts[2].size & 0xfff), parts[2].data);
  return written < VARIABLE_KEY_SIZE
             ? TENON_OK
             : tenon_error_set(TENON_INVALID, "the name of a variable is too long");
}

tenon_status_t variable_key(tf_context_t *context, int input, variable_key_t *out_key) {
  tf_buffer_t *buffer = tf.TF_NewBuffer();
  tf_status_t *status = tf.TF_NewStatus();
  serialize_handle(context, input, buffer, status);
  const int code = tf.TF_GetCode(status);
  const tenon_status_t result =
      code == TF_OK ? write_key(buffer, out_key) : tenon_error_set(code, tf.TF_Message(status));
  tf.TF_DeleteStatus(status);
  tf.TF_DeleteBuffer(buffer);
  return result;
}

/* Finds a variable. Call it with the lock. */
static variable_t *find_variable(const variable_key_t *key) {
  void *found = tfind(key, &variables, compare_variables);
  return found ? *(variable_t **)found : NULL;
}

static const char *name_of(const variable_key_t *key) {
  const char *name = strrchr(key->text, '|');
  return name ? name + 1 : key->text;
}

static tenon_status_t fail_missing(const variable_key_t *key) {
  char text[VARIABLE_KEY_SIZE + 200];
  snprintf(text, sizeof text,
           "Could not find variable %s: it was never assigned a value, or it is destroyed",
           name_of(key));
  return tenon_error_set(TENON_PRECONDITION, text);
}

static void free_variable(variable_t *variable) {
  if (variable->value) tf.TF_DeleteTensor(variable->value);
  if (variable->handle) tf.TF_DeleteTensor(variable->handle);
  free(variable);
}

/* ---- the end of variables -------------------------------------------------------------------- */

enum { DEAD_MOST = 64 };
static variable_t *dead[DEAD_MOST]; /* found by a walk; used with the lock */
static int32_t dead_count;

static void find_dead(const void *node, VISIT visit, int depth) {
  variable_t *variable = *(variable_t *const *)node;
  (void)depth;
  if (visit != postorder && visit != leaf) return;
  if (dead_count < DEAD_MOST && variable->handle && move_tensor(variable->handle))
    dead[dead_count++] = variable;
}

void variable_sweep(void) {
  variable_t *found[DEAD_MOST];
  int32_t count = 0;
  do {
    pthread_mutex_lock(&lock);
    dead_count = 0;
    twalk(variables, find_dead);
    count = dead_count;
    for (int32_t i = 0; i < count; i++) {
      found[i] = dead[i];
      (void)tdelete(found[i], &variables, compare_variables);
    }
    pthread_mutex_unlock(&lock);
    for (int32_t i = 0; i < count; i++)
      free_variable(found[i]);
  } while (count == DEAD_MOST);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Adds a variable. Call it with the lock. Takes over the handle if it counts references. */
static variable_t *store_variable(const variable_key_t *key, tf_tensor_t *handle) {
  variable_t *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->key = *key;
  if (!tsearch(made, &variables, compare_variables)) {
    free(made);
    return NULL;
  }
  if (strstr(key->text, counted)) made->handle = handle;
  return made;
}

/* Makes another handle of the same memory. */
static tenon_status_t share_tensor(const tf_tensor_t *from, tf_tensor_t **out) {
  int64_t dims[TENON_RANK_MAX];
  const int rank = tf.TF_NumDims(from);
  const int64_t none = 0;
  if (rank > TENON_RANK_MAX)
    return tenon_error_set(TENON_UNIMPLEMENTED, "tensors of this rank are not supported by Tenon");
  for (int i = 0; i < rank; i++)
    dims[i] = tf.TF_Dim(from, i);
  tf_status_t *status = tf.TF_NewStatus();
  tf_tensor_t *made = tf.TF_AllocateTensor(tf.TF_TensorType(from), &none, 1, 0);
  if (made) tf.TF_TensorBitcastFrom(from, tf.TF_TensorType(from), made, dims, rank, status);
  const bool is_good = made && tf.TF_GetCode(status) == TF_OK;
  if (made && !is_good) tf.TF_DeleteTensor(made);
  tf.TF_DeleteStatus(status);
  *out = is_good ? made : NULL;
  return is_good ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory: a tensor");
}

tenon_status_t variable_read(const variable_key_t *key, tf_tensor_t **out_value) {
  pthread_mutex_lock(&lock);
  const variable_t *variable = find_variable(key);
  const tenon_status_t status =
      variable ? share_tensor(variable->value, out_value) : fail_missing(key);
  pthread_mutex_unlock(&lock);
  return status;
}

/* Sets the value. Returns what has to be deleted in `value`. `handle` is set to NULL if a new
 * variable keeps it. */
static tenon_status_t set_value(const variable_key_t *key, tf_tensor_t **handle,
                                tf_tensor_t **value) {
  pthread_mutex_lock(&lock);
  variable_t *variable = find_variable(key);
  const bool is_new = !variable;
  if (is_new) variable = store_variable(key, *handle);
  if (is_new && variable && variable->handle) *handle = NULL;
  if (variable) {
    tf_tensor_t *before = variable->value;
    variable->value = *value;
    *value = before;
  }
  pthread_mutex_unlock(&lock);
  if (is_new) variable_sweep();
  return variable ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory: a variable");
}

tenon_status_t variable_assign(tf_context_t *context, int input, tf_tensor_t *value) {
  variable_key_t key;
  tf_tensor_t *handle = NULL;
  tf_status_t *status = tf.TF_NewStatus();
  tf.TF_GetInput(context, input, &handle, status);
  tf.TF_DeleteStatus(status);
  tenon_status_t result = variable_key(context, input, &key);
  if (result == TENON_OK && handle) result = set_value(&key, &handle, &value);
  if (value) tf.TF_DeleteTensor(value);
  if (handle) tf.TF_DeleteTensor(handle);
  return result;
}

static tenon_status_t destroy_variable(const variable_key_t *key) {
  pthread_mutex_lock(&lock);
  variable_t *variable = find_variable(key);
  if (variable) (void)tdelete(variable, &variables, compare_variables);
  pthread_mutex_unlock(&lock);
  if (!variable) return fail_missing(key);
  free_variable(variable);
  return TENON_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* The attributes of a node, as far as its operator has them. */
typedef struct node_attributes_t {
  int dtype;
  unsigned char ignores_missing;
} node_attributes_t;

static void *create_node(tf_construction_t *construction) {
  node_attributes_t *node = calloc(1, sizeof *node);
  tf_status_t *status = tf.TF_NewStatus();
  if (node && tf.TF_OpKernelConstruction_HasAttr(construction, "dtype", status))
    tf.TF_OpKernelConstruction_GetAttrType(construction, "dtype", &node->dtype, status);
  if (node && tf.TF_OpKernelConstruction_HasAttr(construction, "ignore_lookup_error", status))
    tf.TF_OpKernelConstruction_GetAttrBool(construction, "ignore_lookup_error",
                                           &node->ignores_missing, status);
  if (!node) {
    tf.TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory: a kernel");
    tf.TF_OpKernelConstruction_Failure(construction, status);
  }
  tf.TF_DeleteStatus(status);
  return node;
}

static void delete_node(void *node) { free(node); }

/* Reports a failure to TensorFlow. Deletes the status. */
static void finish_call(tf_context_t *context, tenon_status_t result, tf_status_t *status) {
  if (result != TENON_OK && tf.TF_GetCode(status) == TF_OK)
    tf.TF_SetStatus(status, result, tenon_error());
  if (tf.TF_GetCode(status) != TF_OK) tf.TF_OpKernelContext_Failure(context, status);
  tf.TF_DeleteStatus(status);
}

static void compute_assign(void *kernel, tf_context_t *context) {
  tf_status_t *status = tf.TF_NewStatus();
  tf_tensor_t *value = NULL;
  tenon_status_t result = TENON_OK;
  (void)kernel;
  tf.TF_GetInput(context, 1, &value, status);
  if (value && tf.TF_GetCode(status) == TF_OK) {
    variable_lock_updates();
    result = variable_assign(context, 0, value);
    variable_unlock_updates();
  }
  finish_call(context, result, status);
}

/* Returns the value of the variable in the first input; NULL with a status if there is none. */
static tf_tensor_t *find_value(tf_context_t *context, tf_status_t *status) {
  variable_key_t key;
  tf_tensor_t *value = NULL;
  tenon_status_t result = variable_key(context, 0, &key);
  if (result == TENON_OK) result = variable_read(&key, &value);
  if (result != TENON_OK) tf.TF_SetStatus(status, result, tenon_error());
  return value;
}

static void compute_read(void *kernel, tf_context_t *context) {
  const node_attributes_t *node = kernel;
  tf_status_t *status = tf.TF_NewStatus();
  tf_tensor_t *value = find_value(context, status);
  if (value && tf.TF_TensorType(value) != node->dtype)
    tf.TF_SetStatus(status, TF_INVALID_ARGUMENT,
                    "Trying to read variable with wrong dtype: the variable holds another one");
  else if (value)
    tf.TF_SetOutput(context, 0, value, status);
  if (value) tf.TF_DeleteTensor(value);
  finish_call(context, TENON_OK, status);
}

static void compute_is_initialized(void *kernel, tf_context_t *context) {
  tf_status_t *status = tf.TF_NewStatus();
  tf_tensor_t *value = find_value(context, status);
  (void)kernel;
  tf.TF_SetStatus(status, TF_OK, "");
  tf_tensor_t *out = tf.TF_AllocateOutput(context, 0, TF_BOOL, NULL, 0, 1, status);
  if (out) {
    *(bool *)tf.TF_TensorData(out) = value != NULL;
    tf.TF_DeleteTensor(out);
  }
  if (value) tf.TF_DeleteTensor(value);
  finish_call(context, TENON_OK, status);
}

static void compute_shape(void *kernel, tf_context_t *context) {
  tf_status_t *status = tf.TF_NewStatus();
  tf_tensor_t *value = find_value(context, status);
  (void)kernel;
  if (value) {
    const int dtype = tf.TF_ExpectedOutputDataType(context, 0);
    const int64_t rank = tf.TF_NumDims(value);
    tf_tensor_t *out = tf.TF_AllocateOutput(context, 0, dtype, &rank, 1, 0, status);
    for (int i = 0; out && i < rank; i++) {
      if (dtype == TF_INT64)
        ((int64_t *)tf.TF_TensorData(out))[i] = tf.TF_Dim(value, i);
      else
        ((int32_t *)tf.TF_TensorData(out))[i] = (int32_t)tf.TF_Dim(value, i);
    }
    if (out) tf.TF_DeleteTensor(out);
    tf.TF_DeleteTensor(value);
  }
  finish_call(context, TENON_OK, status);
}

static void compute_destroy(void *kernel, tf_context_t *context) {
  const node_attributes_t *node = kernel;
  variable_key_t key;
  tf_status_t *status = tf.TF_NewStatus();
  tenon_status_t result = variable_key(context, 0, &key);
  if (result == TENON_OK) {
    result = destroy_variable(&key);
    if (result == TENON_PRECONDITION && node->ignores_missing) result = TENON_OK;
  }
  finish_call(context, result, status);
}

/* ---- registration ---------------------------------------------------------------------------- */

static const struct {
  const char *op;
  tf_compute_fn compute;
  bool has_dtype; /* one kernel for each dtype; dtypes that Tenon lacks stay with TensorFlow */
  const char *hosts[2];
} operators[] = {
    {"AssignVariableOp", compute_assign, true, {"resource", NULL}},
    {"ReadVariableOp", compute_read, true, {"resource", NULL}},
    {"VarIsInitializedOp", compute_is_initialized, false, {"resource", "is_initialized"}},
    {"VariableShape", compute_shape, false, {"input", "output"}},
    {"DestroyResourceOp", compute_destroy, false, {"resource", NULL}},
};

tenon_status_t register_variables(const platform_t *platform) {
  tenon_status_t status = TENON_OK;
  *(void **)&serialize_handle = tf_find("TF_GetSerializedResourceHandleProto");
  *(void **)&move_tensor = tf_find("TF_TensorMaybeMove");
  if (!serialize_handle || !move_tensor || !tf.TF_NewBuffer)
    return tenon_error_set(TENON_PRECONDITION,
                           "this TensorFlow lacks functions for the handles of variables: use "
                           "TensorFlow 2.21");
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    const kernel_functions_t functions = {create_node, operators[i].compute, delete_node};
    kernel_place_t place = {.op = operators[i].op,
                            .constraint_count = operators[i].has_dtype,
                            .host_count = operators[i].hosts[1] ? 2 : 1,
                            .hosts = {operators[i].hosts[0], operators[i].hosts[1]}};
    for (int dtype = TF_FLOAT; dtype <= TF_UINT64 && status == TENON_OK; dtype++) {
      tenon_dtype_t found;
      if (operators[i].has_dtype && !dtype_from_tf(dtype, &found)) continue;
      place.constraints[0] = (kernel_constraint_t){"dtype", dtype};
      status = register_builder(platform, &functions, &place);
      if (!operators[i].has_dtype) break;
    }
  }
  return status;
}
