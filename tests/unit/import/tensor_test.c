/* Tensors read from files and written to files. The onnx package and NumPy wrote the files:
 * tests/data/import/make.py. */
#include <stdbool.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "check.h"
#include "core/dtype.h"

#define FOLDER TEST_DATA "/import/"

static tenon_tensor_t *load(const char *name) {
  char path[500];
  tenon_tensor_t *tensor = NULL;
  snprintf(path, sizeof path, FOLDER "%s", name);
  CHECK_STATUS(tenon_tensor_load(path, &tensor), TENON_OK);
  return tensor;
}

/* 0, 1, 2, 3, 1, 0 as elements of each type, by the formats' definitions. */
static const struct {
  const char *name;
  uint32_t dtype;
  const char *bytes;
} six[] = {
    {"float", TENON_F32, "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x3f\0\0\0\0"},
    {"uint8", TENON_U8, "\0\1\2\3\1\0"},
    {"int8", TENON_I8, "\0\1\2\3\1\0"},
    {"uint16", TENON_U16, "\0\0\1\0\2\0\3\0\1\0\0\0"},
    {"int16", TENON_I16, "\0\0\1\0\2\0\3\0\1\0\0\0"},
    {"int32", TENON_I32, "\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\1\0\0\0\0\0\0\0"},
    {"uint32", TENON_U32, "\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\1\0\0\0\0\0\0\0"},
    {"int64", TENON_I64,
     "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0"
     "\0"},
    {"uint64", TENON_U64,
     "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0"
     "\0"},
    {"bool", TENON_BOOL, "\0\1\1\1\1\0"},
    {"float16", TENON_F16, "\0\0\0\x3c\0\x40\0\x42\0\x3c\0\0"},
    {"bfloat16", TENON_BF16, "\0\0\x80\x3f\0\x40\x40\x40\x80\x3f\0\0"},
    {"float8e4m3fn", TENON_F8E4M3FN, "\0\x38\x40\x44\x38\0"},
    {"float8e4m3fnuz", TENON_F8E4M3FNUZ, "\0\x40\x48\x4c\x40\0"},
    {"float8e5m2", TENON_F8E5M2, "\0\x3c\x40\x42\x3c\0"},
    {"float8e5m2fnuz", TENON_F8E5M2FNUZ, "\0\x40\x44\x46\x40\0"},
    {"uint4", TENON_U4, "\x10\x32\x01"},
    {"int4", TENON_I4, "\x10\x32\x01"},
    {"float4e2m1", TENON_F4E2M1, "\x20\x54\x02"},
    {"uint2", TENON_U2, "\xe4\x01"},
};

TEST("each element type is read alike from raw bytes and from its own field") {
  for (size_t i = 0; i < sizeof six / sizeof *six; i++)
    for (int raw = 0; raw < 2; raw++) {
      char name[60];
      uint64_t size = 0;
      snprintf(name, sizeof name, "tensor/%s_%s.pb", six[i].name, raw ? "raw" : "typed");
      tenon_tensor_t *tensor = load(name);
      if (!tensor) continue;
      CHECK(tenon_dtype_id(tensor->dtype) == six[i].dtype && tensor->ndim == 2 &&
            tensor->shape[0] == 2 && tensor->shape[1] == 3 &&
            tn_dtype_bytes(tensor->dtype, 6, &size));
      if (!CHECK(memcmp(tensor->data, six[i].bytes, (size_t)size) == 0))
        fprintf(stderr, "  %s\n", name);
      tenon_tensor_release(tensor);
    }
}

TEST("double and complex elements are read from raw bytes and from fields") {
  static const char *const names[] = {"double", "complex64", "complex128"};
  for (int i = 0; i < 3; i++)
    for (int raw = 0; raw < 2; raw++) {
      char name[60];
      snprintf(name, sizeof name, "tensor/%s_%s.pb", names[i], raw ? "raw" : "typed");
      tenon_tensor_t *tensor = load(name);
      for (int64_t k = 0; tensor && k < 6; k++) {
        double expected = k < 4 ? (double)k : (double)(5 - k);
        double re = 0;
        double im = 0;
        if (i == 0) re = ((double *)tensor->data)[k];
        if (i == 1) {
          re = (double)((float *)tensor->data)[2 * k];
          im = (double)((float *)tensor->data)[2 * k + 1];
        }
        if (i == 2) {
          re = ((double *)tensor->data)[2 * k];
          im = ((double *)tensor->data)[2 * k + 1];
        }
        CHECK(re == expected && im == 0);
      }
      tenon_tensor_release(tensor);
    }
}

static bool is_string(const tenon_tensor_t *tensor, int64_t i, const char *text) {
  tenon_string_t string = ((tenon_string_t *)tensor->data)[i];
  return string.size == strlen(text) && memcmp(string.data, text, string.size) == 0;
}

TEST("strings, and numbers that are not packed, are read from TensorProto") {
  tenon_tensor_t *tensor = load("tensor/string.pb");
  CHECK(tensor && is_string(tensor, 0, "") && is_string(tensor, 1, "gr\xc3\xbcn") &&
        is_string(tensor, 2, "\xe6\x97\xa5\xe6\x9c\xac"));
  tenon_tensor_release(tensor);
  tensor = load("tensor/unpacked.pb");
  static const int64_t expected[] = {7, -1, 300, 0};
  CHECK(tensor && memcmp(tensor->data, expected, sizeof expected) == 0);
  tenon_tensor_release(tensor);
}

TEST("arrays of NumPy are read in each format, byte order and order of axes") {
  tenon_tensor_t *tensor;
  static const char *const same[] = {"npy/f4.npy", "npy/version2.npy", "npy/version3.npy"};
  for (int i = 0; i < 3; i++) {
    tensor = load(same[i]);
    for (int k = 0; tensor && k < 6; k++)
      CHECK(((float *)tensor->data)[k] == (float)k / 4 - 1);
    tenon_tensor_release(tensor);
  }
  tensor = load("npy/f8_fortran.npy");
  CHECK(tensor && tensor->ndim == 3 && tensor->shape[0] == 2 && tensor->shape[2] == 4 &&
        tensor->strides[2] == 1);
  for (int k = 0; tensor && k < 24; k++)
    CHECK(((double *)tensor->data)[k] == k);
  tenon_tensor_release(tensor);
  tensor = load("npy/i2_big.npy");
  for (int k = 0; tensor && k < 6; k++)
    CHECK(((int16_t *)tensor->data)[k] == k - 3);
  tenon_tensor_release(tensor);
  tensor = load("npy/c8.npy");
  CHECK(tensor && tenon_dtype_id(tensor->dtype) == TENON_C64 && ((float *)tensor->data)[1] == 2 &&
        ((float *)tensor->data)[3] == -3.5f);
  tenon_tensor_release(tensor);
  tensor = load("npy/empty.npy");
  CHECK(tensor && tensor->ndim == 2 && tensor->shape[0] == 0 && tensor->shape[1] == 3);
  tenon_tensor_release(tensor);
  tensor = load("npy/scalar.npy");
  CHECK(tensor && tensor->ndim == 0 && *(uint16_t *)tensor->data == 0x4100);
  tenon_tensor_release(tensor);
}

TEST("strings of NumPy are converted to UTF-8") {
  tenon_tensor_t *tensor = load("npy/text.npy");
  CHECK(tensor && tensor->ndim == 2 && is_string(tensor, 0, "a") &&
        is_string(tensor, 1, "gr\xc3\xbcn") && is_string(tensor, 2, "") &&
        is_string(tensor, 3, "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"));
  tenon_tensor_release(tensor);
  tensor = load("npy/bytes.npy");
  CHECK(tensor && is_string(tensor, 0, "ab") && is_string(tensor, 1, "c"));
  tenon_tensor_release(tensor);
  tensor = load("npy/text_fortran.npy");
  CHECK(tensor && is_string(tensor, 1, "b") && is_string(tensor, 3, "d"));
  tenon_tensor_release(tensor);
}

static long read_file(const char *path, char *out_data, size_t capacity) {
  FILE *file = fopen(path, "rb");
  size_t size = file ? fread(out_data, 1, capacity, file) : 0;
  if (file) fclose(file);
  return file ? (long)size : -1;
}

TEST("a tensor is not saved where there is no folder, and the error says why") {
  tenon_tensor_t *tensor = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 0, NULL, &tensor), TENON_OK);
  CHECK_STATUS(tenon_tensor_save(tensor, FOLDER "none/a.npy"), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "cannot write the file: No such file or directory");
  CHECK_STATUS(tenon_tensor_save(tensor, FOLDER), TENON_DENIED);
  CHECK_TEXT(tenon_error(), "cannot write the file: Is a directory");
  tenon_tensor_release(tensor);
}

/* Does tenon_tensor_save write the file that NumPy wrote? */
static void same_file(tenon_tensor_t *tensor, const char *name) {
  static char expected[4096], found[4096];
  char path[500];
  char mine[] = "tensor_test_saved.npy";
  snprintf(path, sizeof path, FOLDER "npy/%s.npy", name);
  CHECK_STATUS(tenon_tensor_save(tensor, mine), TENON_OK);
  long size = read_file(path, expected, sizeof expected);
  if (!CHECK(size > 0 && read_file(mine, found, sizeof found) == size &&
             memcmp(expected, found, (size_t)size) == 0))
    fprintf(stderr, "  %s\n", name);
  remove(mine);
}

TEST("a saved tensor is the file that NumPy writes, byte for byte") {
  static const char *const names[] = {"f4", "c8", "b1", "scalar", "empty", "text"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char name[60];
    snprintf(name, sizeof name, "npy/%s.npy", names[i]);
    tenon_tensor_t *tensor = load(name);
    if (tensor) same_file(tensor, names[i]);
    tenon_tensor_release(tensor);
  }
}

TEST("dtypes that NumPy lacks are saved as integers of the same bits") {
  int64_t two = 2;
  int64_t three = 3;
  uint16_t halves[] = {0x3f80, 0xc020};
  uint8_t packed[] = {0xf1, 0x07};
  tenon_tensor_t *tensor = NULL;
  CHECK_STATUS(
      tenon_tensor_borrow(halves, tenon_dtype(TENON_BF16), 1, &two, NULL, NULL, NULL, &tensor),
      TENON_OK);
  same_file(tensor, "bf16_bits");
  tenon_tensor_release(tensor);
  CHECK_STATUS(
      tenon_tensor_borrow(packed, tenon_dtype(TENON_U4), 1, &three, NULL, NULL, NULL, &tensor),
      TENON_OK);
  same_file(tensor, "u4_bits");
  tenon_tensor_release(tensor);
}

/* Writes the bytes to a file and loads the file. */
static tenon_status_t load_from(const char *data, size_t size, tenon_tensor_t **out_tensor) {
  char name[] = "tensor_test_bytes.bin";
  FILE *file = fopen(name, "wb");
  CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
  tenon_status_t status = tenon_tensor_load(name, out_tensor);
  CHECK((status == TENON_OK) == (*out_tensor != NULL));
  remove(name);
  return status;
}

static tenon_status_t load_bytes(const char *data, size_t size) {
  tenon_tensor_t *tensor = NULL;
  tenon_status_t status = load_from(data, size, &tensor);
  tenon_tensor_release(tensor);
  return status;
}

/* The first text is what Pillow writes; comments and blanks may stand anywhere before the one blank
 * that ends the header. */
TEST("a PGM picture is rows of grey values, whatever blanks and comments its header has") {
  static const char *const heads[] = {"P5\n3 2\n255\n", "P5 #a\r\n# 9 9\n 3\t#\n\n02 255 ",
                                      "P5#\n3\n2\n255\n"};
  static const char pixels[] = "\0\377\12#5 ";
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    char bytes[100];
    size_t size = strlen(heads[i]);
    tenon_tensor_t *tensor = NULL;
    memcpy(bytes, heads[i], size);
    memcpy(bytes + size, pixels, 6);
    CHECK_STATUS(load_from(bytes, size + 6, &tensor), TENON_OK);
    CHECK(tensor && tenon_dtype_id(tensor->dtype) == TENON_U8 && tensor->ndim == 2 &&
          tensor->shape[0] == 2 && tensor->shape[1] == 3 && !memcmp(tensor->data, pixels, 6));
    tenon_tensor_release(tensor);
  }
}

TEST("a PGM picture that is truncated, of another kind, or has a wrong header is refused with the "
     "reason") {
  static const struct {
    const char *bytes;
    const char *reason;
  } bad[] = {
      {"P5 3 2 255 12345", "3 columns and 2 rows has 5 bytes of pixels"},
      {"P5 3 2 255 1234567", "3 columns and 2 rows has 7 bytes of pixels"},
      {"P5 0 2 255 ", "0 columns and 2 rows"},
      {"P5 2 0 255 ", "2 columns and 0 rows"},
      {"P5 4294967296 4294967296 255 1", "4294967296 columns"},
      {"P5 99999999999999999999 1 255 1",
       "the PGM header is invalid: expected width, height and largest value"},
      {"P5 3 2 65535 123456",
       "a PGM picture with values up to 65535 is not supported: expected 255 (8 bits)"},
      {"P5 3 2 127 123456", "values up to 127"},
      {"P5 3 2 255#123456", "header"},
      {"P5 3 2 255", "header"},
      {"P5 -3 2 255 123456", "header"},
      {"P5 3 x 255 123456", "header"},
      {"P5 3 #2 255 123456", "header"},
      {"P5\n", "header"},
      {"P6 1 1 255 123", "netpbm format P6 is not supported: expected a greyscale picture, P5"},
      {"P2 1 1 255 1", "netpbm format P2"},
      {"P9 1 1 255 1", "not a .npy or PGM file, and not a valid ONNX TensorProto"},
      {"P5x1 1 255 1", "not a .npy or PGM file, and not a valid ONNX TensorProto"},
      {"P5", "header"},
      {"P", "not a .npy or PGM file, and not a valid ONNX TensorProto"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (!CHECK(load_bytes(bad[i].bytes, strlen(bad[i].bytes)) != TENON_OK))
      fprintf(stderr, "  %s\n", bad[i].bytes);
    CHECK_TEXT(tenon_error(), bad[i].reason);
  }
}

TEST("headers that are wrong or promise too much are refused with a reason") {
  static const struct {
    const char *header;
    const char *reason;
  } bad[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
       "more elements"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "more elements"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
       "dictionary"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "dictionary"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (), }", "descr"},
      {"{'descr': '<f16', 'fortran_order': False, 'shape': (), }", "'f16'"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", "records"},
      {"{'descr': '<f4', 'shape': (), }", "dictionary"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ()", "dictionary"},
      {"{'descr': '<U4611686018427387904', 'fortran_order': False, 'shape': (1,), }",
       "more elements"},
      {"", "dictionary"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char bytes[200] = "\x93NUMPY\1";
    size_t size = strlen(bad[i].header);
    bytes[8] = (char)size;
    bytes[9] = 0;
    memcpy(bytes + 10, bad[i].header, size);
    CHECK_STATUS(load_bytes(bytes, 10 + size + 8), TENON_INVALID);
    CHECK_TEXT(tenon_error(), bad[i].reason);
  }
  CHECK_STATUS(load_bytes("\x93NUMPY\7\0\0\0\0\0", 12), TENON_UNIMPLEMENTED);
  CHECK_STATUS(load_bytes("\x93NUMPY\1", 7), TENON_INVALID);
  CHECK_STATUS(load_bytes("\x93NUMPY\1\0\xff\xff{", 11), TENON_INVALID);
}

TEST("a tensor file that is truncated anywhere is loaded or refused, and never read beyond its "
     "end") {
  static const char *const names[] = {"npy/text.npy",          "npy/f8_fortran.npy",
                                      "tensor/float_typed.pb", "tensor/complex64_raw.pb",
                                      "tensor/string.pb",      "tensor/unpacked.pb"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[500];
    static char data[4096];
    snprintf(path, sizeof path, FOLDER "%s", names[i]);
    long size = read_file(path, data, sizeof data);
    for (long cut = 0; cut < size; cut++) {
      char *part = malloc((size_t)cut + 1); /* A sanitizer then sees its end. */
      if (part && cut) memcpy(part, data, (size_t)cut);
      if (part) (void)load_bytes(part, (size_t)cut);
      free(part);
    }
  }
}
