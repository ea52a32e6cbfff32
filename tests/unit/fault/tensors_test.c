/* Damaged tensor files, .npy and .pb: they are loaded or refused with a message, are never read
 * beyond their end, and their sizes are checked before use. */
#include "attempt.h"
#include "check.h"
#include "damage.h"

#define FOLDER TEST_DATA "/import/"
#define SAVED "fault_tensors_test.bin"
enum {
  COUNT = 400,
  FILE_MAX = 1 << 14,
};

static const char *const names[] = {
    "npy/f4.npy",           "npy/version2.npy",     "npy/f8_fortran.npy",  "npy/c8.npy",
    "npy/text.npy",         "npy/bytes.npy",        "tensor/float_raw.pb", "tensor/float_typed.pb",
    "tensor/bool_typed.pb", "tensor/int4_typed.pb", "tensor/string.pb",    "tensor/unpacked.pb"};
static unsigned char original[FILE_MAX], damaged[2 * FILE_MAX];
static damage_fields_t fields;

static size_t read_file(const char *name) {
  char path[500];
  snprintf(path, sizeof path, FOLDER "%s", name);
  FILE *file = fopen(path, "rb");
  size_t size = file ? fread(original, 1, sizeof original, file) : 0;
  if (file) fclose(file);
  CHECK(size > 0 && size < sizeof original);
  return size;
}

static tenon_status_t load(const void *data, size_t size, tenon_tensor_t **out_tensor) {
  FILE *file = fopen(SAVED, "wb");
  CHECK(file && fwrite(data, 1, size, file) == size);
  if (file) fclose(file);
  attempt_limit(true);
  tenon_status_t status = tenon_tensor_load(SAVED, out_tensor);
  attempt_limit(false);
  return status;
}

/* Changes a character of a textual header to one that has a meaning there. */
static void damage_header(damage_t *d) {
  static const char letters[] = "0123456789()[]{}',:<>|=fiUScbV TrueFals-";
  size_t end = d->size < 128 ? d->size : 128;
  for (uint64_t i = 0, times = 1 + damage_random(d, 4); i < times && end > 10; i++)
    d->data[10 + damage_random(d, end - 10)] =
        (unsigned char)letters[damage_random(d, sizeof letters - 1)];
}

TEST("a damaged tensor file is loaded or refused with a message") {
  attempt_start();
  uint64_t operators = attempt_operators();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size = read_file(names[i]);
    uint64_t loaded = 0;
    for (uint64_t n = 0; n < COUNT; n++) {
      damage_t d = {0, damaged, size, sizeof damaged};
      tenon_tensor_t *tensor = NULL;
      memcpy(damaged, original, size);
      if (strstr(names[i], ".npy") && n % 5 > 1) {
        d.state = n;
        damage_header(&d);
      } else
        damage_file(&d, n, &fields);
      tenon_status_t status = load(d.data, d.size, &tensor);
      bool fine =
          CHECK((status == TENON_OK) == (tensor != NULL)) && CHECK(status != TENON_INTERNAL);
      if (status != TENON_OK) fine = CHECK(*tenon_error()) && fine;
      if (!fine)
        fprintf(stderr, "  %s, damage %llu: %s\n", names[i], (unsigned long long)n, tenon_error());
      if (tensor) {
        /* The copy reads everything that the tensor claims to have. */
        tenon_tensor_t *copy = NULL;
        CHECK_STATUS(tenon_tensor_copy(tensor, &copy), TENON_OK);
        tenon_tensor_release(copy);
        loaded++;
      }
      tenon_tensor_release(tensor);
    }
    CHECK(loaded > 0 && loaded < COUNT);
  }
  CHECK(attempt_operators() == operators);
  remove(SAVED);
}

TEST("a tensor file that promises more data than it has is refused before memory is allocated") {
  static const struct {
    const char *bytes;
    size_t size;
    const char *part;
  } bad[] = {
      {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40\x10\x01\x4a\x04\0\0\0\0", 18,
       "impossible shape"}, /* [2^62] of f32 */
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01\x4a\x04\0\0\0\0", 19,
       "impossible shape [-1]"},
      {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40\x08\x08\x08\0\x10\x01", 16,
       "impossible shape"}, /* [2^62, 8, 0] */
      {"\x08\x80\x80\x80\x80\x80\x20\x10\x01\x4a\x04\0\0\0\0", 15,
       "found 4"}, /* [2^40] of f32, 4 bytes raw */
      {"\x08\x80\x80\x80\x80\x80\x20\x10\x01\x22\x04\0\0\0\0", 15,
       /* The same elements, in the typed field. */
       "the message has only"},
      {"\x08\x80\x80\x80\x80\x80\x20\x10\x08\x32\x01x", 12,
       "the message has only"}, /* [2^40] strings */
      {"\x08\x02\x10\x01\x70\x01\x6a\x12\x0a\x08location\x12\x06../a.b", 26,
       "only files in the model's folder"},
      {"\x08\x02\x10\x01\x70\x01\x6a\x12\x0a\x08location\x12\x06/a/b.c", 26,
       "only files in the model's folder"},
      {"\x08\x02\x10\x01\x70\x01\x6a\x12\x0a\x08location\x12\x06"
       "abc.de",
       26, "abc.de"},
  };
  attempt_start();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tenon_tensor_t *tensor = NULL;
    tenon_status_t status = load(bad[i].bytes, bad[i].size, &tensor);
    CHECK(status != TENON_OK && status != TENON_MEMORY && !tensor);
    CHECK_TEXT(tenon_error(), bad[i].part);
  }
  remove(SAVED);
}
