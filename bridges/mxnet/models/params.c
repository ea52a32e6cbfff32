/* Reads the file from front to back, each array into its own tensor. Invariant: no allocation is
 * larger than the rest of the file. The format is that of NDArray::Save and NDArray::Load in
 * MXNet's src/ndarray/ndarray.cc; all numbers are little-endian. */
#include "params.h"

#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t LIST_MAGIC = 0x112;
/* Arrays older than MAGIC_1 begin with their number of axes. */
static const uint32_t MAGIC_1 = 0xF993fac8;
static const uint32_t MAGIC_2 = 0xF993fac9;
static const uint32_t MAGIC_3 = 0xF993faca;

typedef struct stream_t {
  FILE *file;
  const char *path;
  uint64_t left;
  long long array; /* the array that is being read, for messages; -1: none */
} stream_t;

static const struct {
  const char *name;
  uint32_t number;
  uint32_t dtype;
} dtypes[] = {
    {"float32", 0, TENON_F32},    {"float64", 1, TENON_F64}, {"float16", 2, TENON_F16},
    {"uint8", 3, TENON_U8},       {"int32", 4, TENON_I32},   {"int8", 5, TENON_I8},
    {"int64", 6, TENON_I64},      {"bool", 7, TENON_BOOL},   {"int16", 8, TENON_I16},
    {"uint16", 9, TENON_U16},     {"uint32", 10, TENON_U32}, {"uint64", 11, TENON_U64},
    {"bfloat16", 12, TENON_BF16},
};

bool mxnet_dtype_from(int64_t number, tenon_dtype_t *out_dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (dtypes[i].number == number) {
      *out_dtype = tenon_dtype(dtypes[i].dtype);
      return true;
    }
  return false;
}

bool mxnet_dtype_parse(const char *name, tenon_dtype_t *out_dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (strcmp(dtypes[i].name, name) == 0) {
      *out_dtype = tenon_dtype(dtypes[i].dtype);
      return true;
    }
  return false;
}

static tenon_status_t fail(const stream_t *s, tenon_status_t code, const char *format, ...)
    TENON_FORMAT(3, 4);
static tenon_status_t fail(const stream_t *s, tenon_status_t code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tenon_status_t status = tn_fail_list(code, format, arguments);
  va_end(arguments);
  if (s->array >= 0) return tn_prefix(status, "%s: array %lld: ", s->path, s->array);
  return tn_prefix(status, "%s: ", s->path);
}

static tenon_status_t take_bytes(stream_t *s, void *out, uint64_t size, const char *what) {
  if (size > s->left)
    return fail(s, TENON_INVALID, "%s takes %llu bytes, but the file has %llu bytes left", what,
                (unsigned long long)size, (unsigned long long)s->left);
  if (size && fread(out, 1, (size_t)size, s->file) != size)
    return fail(s, TENON_INVALID, "%s cannot be read: %s", what,
                ferror(s->file) ? strerror(errno) : "the file became shorter");
  s->left -= size;
  return TENON_OK;
}

static tenon_status_t take_count(stream_t *s, uint64_t each, const char *what, uint64_t *out) {
  TENON_TRY(take_bytes(s, out, sizeof *out, what));
  if (*out <= s->left / each) return TENON_OK;
  return fail(s, TENON_INVALID, "%s: %llu, but the file has %llu bytes left", what,
              (unsigned long long)*out, (unsigned long long)s->left);
}

/* Reads a shape. A negative ndim means an array without a shape. */
static tenon_status_t take_shape(stream_t *s, uint32_t magic, int32_t *out_ndim,
                                 int64_t shape[TENON_RANK_MAX]) {
  uint32_t narrow[TENON_RANK_MAX];
  bool is_old = magic != MAGIC_1 && magic != MAGIC_2 && magic != MAGIC_3;
  if (is_old)
    *out_ndim = magic > INT32_MAX ? INT32_MAX : (int32_t)magic;
  else
    TENON_TRY(take_bytes(s, out_ndim, sizeof *out_ndim, "the number of axes"));
  if (is_old && *out_ndim > TENON_RANK_MAX)
    return fail(s, TENON_INVALID,
                "it starts with 0x%08x, which is not the magic number of an array",
                (unsigned)magic);
  if (*out_ndim < -1 || *out_ndim > TENON_RANK_MAX)
    return fail(s, TENON_INVALID, "%d axes; expected at most %d", (int)*out_ndim, TENON_RANK_MAX);
  uint64_t count = *out_ndim > 0 ? (uint64_t)*out_ndim : 0;
  const size_t extent_size = is_old ? sizeof *narrow : sizeof *shape;
  TENON_TRY(take_bytes(s, is_old ? (void *)narrow : shape, count * extent_size, "the shape"));
  for (uint64_t i = 0; i < count; i++) {
    if (is_old) shape[i] = narrow[i];
    if (shape[i] < (magic == MAGIC_3 ? -1 : 0))
      return fail(s, TENON_INVALID, "axis %d has extent %lld", (int)i, (long long)shape[i]);
    if (shape[i] == -1) *out_ndim = -1;
  }
  if (*out_ndim == 0 && magic != MAGIC_3) *out_ndim = -1;
  return TENON_OK;
}

static tenon_status_t take_array(stream_t *s, tenon_tensor_t **out_tensor) {
  uint32_t magic;
  int32_t storage = 0;
  int32_t ndim = 0;
  int32_t number = 0;
  int32_t device[2];
  int64_t shape[TENON_RANK_MAX] = {0};
  tenon_dtype_t dtype;
  TENON_TRY(take_bytes(s, &magic, sizeof magic, "its magic number"));
  if (magic == MAGIC_2 || magic == MAGIC_3)
    TENON_TRY(take_bytes(s, &storage, sizeof storage, "the storage type"));
  if (storage == 1 || storage == 2)
    return fail(s, TENON_UNIMPLEMENTED,
                "it is stored as %s; store it dense: array.tostype('default')",
                storage == 1 ? "row_sparse" : "csr");
  if (storage != 0) return fail(s, TENON_INVALID, "storage type %d does not exist", (int)storage);
  TENON_TRY(take_shape(s, magic, &ndim, shape));
  if (ndim < 0) return TENON_OK;
  TENON_TRY(take_bytes(s, device, sizeof device, "the device"));
  TENON_TRY(take_bytes(s, &number, sizeof number, "the dtype"));
  if (!mxnet_dtype_from(number, &dtype))
    return fail(s, TENON_INVALID, "dtype %d does not exist in MXNet", (int)number);
  uint64_t size = dtype.bits / 8;
  bool is_empty = false;
  for (int32_t i = 0; i < ndim; i++)
    is_empty |= shape[i] == 0;
  for (int32_t i = 0; i < ndim && !is_empty; i++) {
    if ((uint64_t)shape[i] > s->left / size)
      return fail(s, TENON_INVALID,
                  "its shape needs more data, but the file has only %llu bytes left",
                  (unsigned long long)s->left);
    size *= (uint64_t)shape[i];
  }
  TENON_TRY(tenon_tensor_create(dtype, ndim, shape, out_tensor));
  return take_bytes(s, (*out_tensor)->data, is_empty ? 0 : size, "its data");
}

static tenon_status_t take_list(stream_t *s, tn_arena_t *arena, params_t *params) {
  uint64_t magic, reserved, count, names, size;
  TENON_TRY(take_bytes(s, &magic, sizeof magic, "the magic number"));
  if (magic != LIST_MAGIC)
    return fail(s, TENON_INVALID, "it starts with 0x%llx; files of mx.nd.save start with 0x112",
                (unsigned long long)magic);
  TENON_TRY(take_bytes(s, &reserved, sizeof reserved, "the header"));
  /* Every array takes at least 8 bytes. */
  TENON_TRY(take_count(s, 8, "the number of arrays", &count));
  if (!(params->items = tn_arena_array(arena, (size_t)count + 1, sizeof *params->items)))
    return tn_no_memory("parameters", 0);
  for (uint64_t i = 0; i < count; i++) {
    s->array = (long long)i;
    params->count = (size_t)i + 1;
    TENON_TRY(take_array(s, &params->items[i].tensor));
  }
  s->array = -1;
  TENON_TRY(take_count(s, 8, "the number of names", &names));
  if (names != count)
    return fail(s, TENON_INVALID, "the file has %llu names for %llu arrays",
                (unsigned long long)names, (unsigned long long)count);
  for (uint64_t i = 0; i < count; i++) {
    TENON_TRY(take_count(s, 1, "the length of a name", &size));
    char *name = tn_arena_array(arena, (size_t)size + 1, 1);
    if (!name) return tn_no_memory("parameters", 0);
    TENON_TRY(take_bytes(s, name, size, "a name"));
    params->items[i].name = name;
  }
  if (!s->left) return TENON_OK;
  return fail(s, TENON_INVALID, "%llu bytes are left after the last name",
              (unsigned long long)s->left);
}

static const char *plain(const char *name) {
  return strncmp(name, "arg:", 4) == 0 || strncmp(name, "aux:", 4) == 0 ? name + 4 : name;
}

static int compare(const void *a, const void *b) {
  return strcmp(plain(((const param_t *)a)->name), plain(((const param_t *)b)->name));
}

static tenon_status_t sort(const stream_t *s, params_t *params) {
  qsort(params->items, params->count, sizeof *params->items, compare);
  for (size_t i = 1; i < params->count; i++)
    if (compare(&params->items[i - 1], &params->items[i]) == 0)
      return fail(s, TENON_INVALID, "two arrays are named '%.100s'", plain(params->items[i].name));
  return TENON_OK;
}

tenon_status_t params_read(const char *path, tn_arena_t *arena, params_t *params) {
  struct stat about;
  stream_t s = {fopen(path, "rb"), path, 0, -1};
  if (!s.file) return tn_fail(TENON_NOT_FOUND, "%s: %s", path, strerror(errno));
  tenon_status_t status = TENON_OK;
  if (fstat(fileno(s.file), &about) != 0 || !S_ISREG(about.st_mode))
    status = fail(&s, TENON_INVALID, "expected a file, found a folder or a device");
  else
    s.left = (uint64_t)about.st_size;
  if (status == TENON_OK) status = take_list(&s, arena, params);
  if (status == TENON_OK) status = sort(&s, params);
  fclose(s.file);
  return status;
}

void params_release(params_t *params) {
  for (size_t i = 0; i < params->count; i++)
    tenon_tensor_release(params->items[i].tensor);
  *params = (params_t){0};
}

tenon_tensor_t *params_find(const params_t *params, const char *name) {
  const param_t key = {name, NULL};
  const param_t *found =
      params->count ? bsearch(&key, params->items, params->count, sizeof key, compare) : NULL;
  return found ? found->tensor : NULL;
}
