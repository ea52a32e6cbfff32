/* Files of pictures: any bytes are decoded by companions/images.c to pixels in the form that was
 * asked for, or refused with a message. WebP, TIFF and JPEG 2000 are read where their libraries are
 * installed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
const tenon_descriptor_t *tenon_library_images(void);

enum { GREY = 2 }; /* the index of a choice; those before it have three channels */

static void require(bool truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "wrong: %s; last message: %s\n", what, tenon_error());
  abort();
}

static const tenon_op_t *find_decoder(void) {
  tenon_library_t *library = NULL;
  const tenon_op_t *op = NULL;
  require(tenon_start() == TENON_OK, "the start");
  require(tenon_library_add(tenon_library_images(), NULL, NULL, &library) == TENON_OK,
          "the library");
  require(tenon_op_find("images::decode", &op) == TENON_OK, "the operator");
  return op;
}

static void decode(const tenon_op_t *op, tenon_tensor_t *file, int64_t format) {
  const tenon_value_t attrs[1] = {{.kind = TENON_KIND_CHOICE, .as.i = format}};
  tenon_tensor_t *pixels = NULL;
  const tenon_status_t status = tenon_op_call(op, attrs, &file, &pixels, 1);
  require(status == TENON_OK || *tenon_error() != 0, "a refusal without a message");
  require((status == TENON_OK) == (pixels != NULL), "a status that does not fit the result");
  if (pixels) {
    require(pixels->ndim == 3 && pixels->shape[2] == (format == GREY ? 1 : 3), "the shape");
    require(pixels->shape[0] > 0 && pixels->shape[1] > 0, "the size");
  }
  tenon_tensor_release(pixels);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static const tenon_op_t *op;
  const int64_t shape[1] = {(int64_t)size};
  tenon_tensor_t *file = NULL;
  if (!op) op = find_decoder();
  unsigned char *copy = malloc(size + !size); /* so that a sanitizer sees reads beyond the file */
  if (!copy) abort();
  memcpy(copy, data, size);
  require(tenon_tensor_borrow(copy, tenon_dtype(TENON_U8), 1, shape, NULL, NULL, NULL, &file) ==
              TENON_OK,
          "the tensor");
  decode(op, file, (int64_t)(size % (GREY + 1)));
  tenon_tensor_release(file);
  free(copy);
  return 0;
}
