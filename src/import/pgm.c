/* PGM as netpbm defines it: "P5", width, height and the largest value in decimal digits, with
 * blanks or comments between them; one blank; then one byte for each pixel, top row first.
 * Invariant: sizes from the header are compared with the size of the file before anything is
 * allocated. */
#include "import/pgm.h"

#include <ctype.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"

enum {
  KIND_SIZE = 2,
  WHITE = 255,
};

bool tn_pgm_is(const tn_file_t *file) {
  const unsigned char *at = file->data;
  return file->size >= KIND_SIZE && at[0] == 'P' && at[1] >= '1' && at[1] <= '7' &&
         (file->size == KIND_SIZE || isspace(at[KIND_SIZE]) || at[KIND_SIZE] == '#');
}

/* Reads a number of the header after blanks and comments; false: there is none. */
static bool take_number(const tn_file_t *file, size_t *at, int64_t *out_number) {
  bool is_comment = false;
  for (; *at < file->size && (is_comment || isspace(file->data[*at]) || file->data[*at] == '#');
       ++*at)
    is_comment = file->data[*at] == '#' || (is_comment && file->data[*at] != '\n');
  size_t begin = *at;
  for (*out_number = 0; *at < file->size && isdigit(file->data[*at]); ++*at)
    if (!tn_mul(*out_number, 10, out_number) ||
        !tn_add(*out_number, file->data[*at] - '0', out_number))
      return false;
  return *at > begin;
}

tenon_status_t tn_pgm_read(const tn_file_t *file, tenon_tensor_t **out_tensor) {
  int64_t width, height, white, count;
  size_t at = KIND_SIZE;
  if (file->data[1] != '5')
    return tn_fail(TENON_UNIMPLEMENTED,
                   "netpbm format P%c is not supported: expected a greyscale picture, P5",
                   file->data[1]);
  if (!take_number(file, &at, &width) || !take_number(file, &at, &height) ||
      !take_number(file, &at, &white) || at == file->size || !isspace(file->data[at]))
    return tn_fail(TENON_INVALID,
                   "the PGM header is invalid: expected width, height and largest value");
  at++;
  if (white != WHITE)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "a PGM picture with values up to %lld is not supported: expected %d (8 bits)",
                   (long long)white, WHITE);
  if (!width || !height || !tn_mul(width, height, &count) || (uint64_t)count != file->size - at)
    return tn_fail(TENON_INVALID,
                   "a PGM picture of %lld columns and %lld rows has %zu bytes of pixels: expected "
                   "one byte for each pixel",
                   (long long)width, (long long)height, file->size - at);
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_U8), 2, (int64_t[]){height, width}, out_tensor));
  memcpy((*out_tensor)->data, file->data + at, (size_t)count);
  return TENON_OK;
}
