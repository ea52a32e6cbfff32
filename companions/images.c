/* images::decode: pictures in files as pixels; ONNX's ImageDecoder. A library of operators of its
 * own, because libtenon depends on no library for pictures: libjpeg and libpng read their formats,
 * libwebp and libtiff are opened at run time for theirs, and this file reads BMP (24 and 32 bits,
 * not compressed) and binary PNM (8 bits).
 * Invariant: no picture has more than 2^28 pixels, and no byte beyond the file is read. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/op.h>

#include <jpeglib.h>
#include <png.h>

enum { PIXELS_MAX = 1 << 28 };
enum {
  FORMAT_RGB,
  FORMAT_BGR,
  FORMAT_GREY,
};

/* A file, and the pixels that were read from it: red, green, blue. */
typedef struct image_t {
  tenon_call_t *call;
  const uint8_t *data;
  size_t size;
  size_t at; /* where libtiff reads */
  int64_t width;
  int64_t height;
  uint8_t *rgb;
} image_t;

static tenon_status_t fail_image(const image_t *image, const char *format, const char *why) {
  return tenon_fail(image->call, TENON_INVALID, "the %s file cannot be read: %s", format, why);
}

/* Makes room for the pixels. */
static tenon_status_t set_size(image_t *image, const char *format, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > PIXELS_MAX || height > PIXELS_MAX / width)
    return fail_image(image, format, "expected 1 to 2^28 pixels");
  image->width = width;
  image->height = height;
  image->rgb = image->call->host->allocate(image->call, (uint64_t)(width * height * 3));
  return image->rgb ? TENON_OK : TENON_MEMORY;
}

/* JPEG */

typedef struct jpeg_failure_t {
  struct jpeg_error_mgr manager;
  jmp_buf back;
  char text[JMSG_LENGTH_MAX];
} jpeg_failure_t;

static void jpeg_failed(j_common_ptr common) {
  jpeg_failure_t *failure = (jpeg_failure_t *)common->err;
  failure->manager.format_message(common, failure->text);
  longjmp(failure->back, 1);
}

static void jpeg_is_silent(j_common_ptr common) { (void)common; }

static tenon_status_t read_scanlines(image_t *image, struct jpeg_decompress_struct *jpeg) {
  jpeg_create_decompress(jpeg);
  jpeg_mem_src(jpeg, image->data, (unsigned long)image->size);
  jpeg_read_header(jpeg, TRUE);
  jpeg->out_color_space = JCS_RGB;
  jpeg_start_decompress(jpeg);
  TENON_TRY(set_size(image, "JPEG", jpeg->output_width, jpeg->output_height));
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = image->rgb + (int64_t)jpeg->output_scanline * image->width * 3;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
  return TENON_OK;
}

static tenon_status_t decode_jpeg(image_t *image) {
  struct jpeg_decompress_struct jpeg;
  jpeg_failure_t failure;
  memset(&jpeg, 0, sizeof jpeg);
  jpeg.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = jpeg_failed;
  failure.manager.output_message = jpeg_is_silent;
  if (setjmp(failure.back)) {
    jpeg_destroy_decompress(&jpeg);
    return fail_image(image, "JPEG", failure.text);
  }
  const tenon_status_t status = read_scanlines(image, &jpeg);
  jpeg_destroy_decompress(&jpeg);
  return status;
}

/* PNG */

static tenon_status_t decode_png(image_t *image) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_memory(&png, image->data, image->size))
    return fail_image(image, "PNG", png.message);
  png.format = PNG_FORMAT_RGB;
  tenon_status_t status = set_size(image, "PNG", png.width, png.height);
  if (status == TENON_OK && !png_image_finish_read(&png, NULL, image->rgb, 0, NULL))
    status = fail_image(image, "PNG", png.message);
  png_image_free(&png);
  return status;
}

/* BMP */

static int64_t read_little(const image_t *image, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; i++)
    value |= (uint32_t)image->data[at + i] << (8 * i);
  return bytes == 4 ? (int32_t)value : (int64_t)value;
}

static tenon_status_t decode_bmp(image_t *image) {
  enum { HEADERS = 54 };
  if (image->size < HEADERS) return fail_image(image, "BMP", "it ends within its header");
  const int64_t begin = read_little(image, 10, 4);
  const int64_t width = read_little(image, 18, 4);
  const int64_t height = read_little(image, 22, 4);
  const int64_t bytes = read_little(image, 28, 2) / 8;
  if (read_little(image, 30, 4) != 0 || (bytes != 3 && bytes != 4))
    return tenon_fail(image->call, TENON_UNIMPLEMENTED,
                      "a BMP file is compressed or has %d bits for each pixel: expected 24 or 32",
                      (int)read_little(image, 28, 2));
  TENON_TRY(set_size(image, "BMP", width, height < 0 ? -height : height));
  const int64_t row_size = (width * bytes + 3) / 4 * 4;
  if (begin < HEADERS || (int64_t)image->size < begin ||
      ((int64_t)image->size - begin) / row_size < image->height)
    return fail_image(image, "BMP", "it has fewer pixels than its header states");
  for (int64_t y = 0; y < image->height; y++) {
    const int64_t row = height < 0 ? y : image->height - 1 - y; /* stored from below */
    const uint8_t *from = image->data + begin + row * row_size;
    uint8_t *to = image->rgb + y * width * 3;
    for (int64_t x = 0; x < width; x++)
      for (int c = 0; c < 3; c++)
        to[x * 3 + c] = from[x * bytes + 2 - c];
  }
  return TENON_OK;
}

/* PNM */

/* Reads a number after white space and comments; -1: there is none. */
static int64_t read_decimal(const image_t *image, size_t *at) {
  int64_t value = -1;
  while (*at < image->size && strchr(" \t\r\n#", image->data[*at])) {
    const int is_comment = image->data[(*at)++] == '#';
    while (is_comment && *at < image->size && image->data[*at] != '\n')
      ++*at;
  }
  for (; *at < image->size && image->data[*at] >= '0' && image->data[*at] <= '9'; ++*at) {
    if (value > PIXELS_MAX) return -1;
    value = (value < 0 ? 0 : value) * 10 + (image->data[*at] - '0');
  }
  return value;
}

static tenon_status_t decode_pnm(image_t *image) {
  const int64_t channels = image->data[1] == '6' ? 3 : 1;
  size_t at = 2;
  const int64_t width = read_decimal(image, &at);
  const int64_t height = read_decimal(image, &at);
  if (read_decimal(image, &at) != 255)
    return fail_image(image, "PNM", "expected 255 as the largest value");
  TENON_TRY(set_size(image, "PNM", width, height));
  at++; /* one white space */
  const int64_t count = width * height;
  if (at > image->size || (int64_t)(image->size - at) < count * channels)
    return fail_image(image, "PNM", "it has fewer pixels than its header states");
  for (int64_t i = 0; i < count; i++)
    for (int64_t c = 0; c < 3; c++)
      image->rgb[i * 3 + c] = image->data[at + (size_t)(i * channels + (channels == 3 ? c : 0))];
  return TENON_OK;
}

/* Libraries that are opened at run time. Their functions are declared here as in their headers. */

typedef struct image_function_t {
  const char *name;
  void *to; /* the address of the pointer to the function */
} image_function_t;

/* Finds functions of a library, which stays loaded. */
static tenon_status_t open_functions(const image_t *image, const char *library, const char *package,
                                     const image_function_t *functions, size_t count) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; i < count; i++) {
    void *found = handle ? dlsym(handle, functions[i].name) : NULL;
    if (!found)
      return tenon_fail(image->call, TENON_UNIMPLEMENTED,
                        "%s is not installed: on Debian, install %s", library, package);
    *(void **)functions[i].to = found;
  }
  return TENON_OK;
}

/* WebP */

static tenon_status_t decode_webp(image_t *image) {
  int (*get_info)(const uint8_t *, size_t, int *, int *) = NULL;
  uint8_t *(*decode)(const uint8_t *, size_t, uint8_t *, size_t, int) = NULL;
  const image_function_t functions[] = {{"WebPGetInfo", &get_info}, {"WebPDecodeRGBInto", &decode}};
  int width = 0;
  int height = 0;
  TENON_TRY(open_functions(image, "libwebp.so.7", "libwebp7", functions, 2));
  if (!get_info(image->data, image->size, &width, &height))
    return fail_image(image, "WebP", "its header is wrong");
  TENON_TRY(set_size(image, "WebP", width, height));
  const size_t size = (size_t)(image->width * image->height * 3);
  if (decode(image->data, image->size, image->rgb, size, width * 3)) return TENON_OK;
  return fail_image(image, "WebP", "its pixels are wrong, or it ends too early");
}

/* TIFF */

enum {
  TIFF_WIDTH = 256,
  TIFF_HEIGHT = 257,
  TIFF_TOP_LEFT = 1,
};
typedef struct tiff_t tiff_t;
typedef struct tiff_functions_t {
  tiff_t *(*open)(const char *, const char *, void *, intptr_t (*)(void *, void *, intptr_t),
                  intptr_t (*)(void *, void *, intptr_t), uint64_t (*)(void *, uint64_t, int),
                  int (*)(void *), uint64_t (*)(void *), int (*)(void *, void **, uint64_t *),
                  void (*)(void *, void *, uint64_t));
  int (*get)(tiff_t *, uint32_t, ...);
  int (*read)(tiff_t *, uint32_t, uint32_t, uint32_t *, int, int);
  void (*close)(tiff_t *);
} tiff_functions_t;

static intptr_t tiff_read(void *context, void *data, intptr_t size) {
  image_t *image = context;
  const size_t left = image->at < image->size ? image->size - image->at : 0;
  const size_t count = size < 0 || (size_t)size > left ? left : (size_t)size;
  if (count) memcpy(data, image->data + image->at, count);
  image->at += count;
  return (intptr_t)count;
}
static intptr_t tiff_write(void *context, void *data, intptr_t size) {
  (void)context;
  (void)data;
  (void)size;
  return 0;
}
static uint64_t tiff_seek(void *context, uint64_t offset, int whence) {
  image_t *image = context;
  if (whence == SEEK_SET) image->at = 0;
  if (whence == SEEK_END) image->at = image->size;
  image->at += offset;
  return image->at;
}
static int tiff_close(void *image) {
  (void)image;
  return 0;
}
static uint64_t tiff_size(void *image) { return ((const image_t *)image)->size; }
static int tiff_map(void *image, void **out_data, uint64_t *out_size) {
  *out_data = (void *)(uintptr_t)((const image_t *)image)->data;
  *out_size = ((const image_t *)image)->size;
  return 1;
}
static void tiff_unmap(void *image, void *data, uint64_t size) {
  (void)image;
  (void)data;
  (void)size;
}

static tenon_status_t read_tiff(image_t *image, const tiff_functions_t *f, tiff_t *tiff) {
  uint32_t width = 0;
  uint32_t height = 0;
  if (!f->get(tiff, TIFF_WIDTH, &width) || !f->get(tiff, TIFF_HEIGHT, &height))
    return fail_image(image, "TIFF", "it states no size");
  TENON_TRY(set_size(image, "TIFF", width, height));
  const int64_t count = image->width * image->height;
  uint32_t *pixels = image->call->host->allocate(image->call, (uint64_t)count * sizeof *pixels);
  if (!pixels) return TENON_MEMORY;
  if (!f->read(tiff, width, height, pixels, TIFF_TOP_LEFT, 1))
    return fail_image(image, "TIFF", "its pixels are wrong, or it ends too early");
  for (int64_t i = 0; i < count; i++)
    for (int c = 0; c < 3; c++)
      image->rgb[i * 3 + c] = (uint8_t)(pixels[i] >> (8 * c));
  return TENON_OK;
}

static tenon_status_t decode_tiff(image_t *image) {
  tiff_functions_t f = {NULL, NULL, NULL, NULL};
  const image_function_t functions[] = {{"TIFFClientOpen", &f.open},
                                        {"TIFFGetField", &f.get},
                                        {"TIFFReadRGBAImageOriented", &f.read},
                                        {"TIFFClose", &f.close}};
  TENON_TRY(open_functions(image, "libtiff.so.6", "libtiff6", functions, 4));
  tiff_t *tiff = f.open("the input", "r", image, tiff_read, tiff_write, tiff_seek, tiff_close,
                        tiff_size, tiff_map, tiff_unmap);
  if (!tiff) return fail_image(image, "TIFF", "its header is wrong");
  const tenon_status_t status = read_tiff(image, &f, tiff);
  f.close(tiff);
  return status;
}

/* The operator */

static const struct {
  const char *begin;
  size_t size;
  tenon_status_t (*decode)(image_t *image); /* NULL: the format is not supported */
  const char *name;
} formats[] = {{"\xff\xd8\xff", 3, decode_jpeg, "JPEG"},
               {"\x89PNG", 4, decode_png, "PNG"},
               {"BM", 2, decode_bmp, "BMP"},
               {"P5", 2, decode_pnm, "PNM"},
               {"P6", 2, decode_pnm, "PNM"},
               {"II*\0", 4, decode_tiff, "TIFF"},
               {"MM\0*", 4, decode_tiff, "TIFF"},
               {"RIFF", 4, decode_webp, "WebP"},
               {"\0\0\0\x0cjP  ", 8, NULL, "JPEG 2000, which needs the library libopenjp2"}};

static tenon_status_t decode_any(image_t *image) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (image->size < formats[i].size || memcmp(image->data, formats[i].begin, formats[i].size))
      continue;
    if (formats[i].decode) return formats[i].decode(image);
    return tenon_fail(
        image->call, TENON_UNIMPLEMENTED,
        "the file is in the format %s: this build reads JPEG, PNG, BMP, PNM, TIFF and WebP",
        formats[i].name);
  }
  return tenon_fail(image->call, TENON_INVALID,
                    "the first bytes are those of no known format: expected JPEG, PNG, BMP, PNM, "
                    "TIFF or WebP");
}

/* Writes the pixels as the result wants them; greys are those of ITU-R 601. */
static void put_pixels(const image_t *image, int64_t format, uint8_t *to) {
  const uint8_t *rgb = image->rgb;
  for (int64_t i = 0; i < image->width * image->height; i++, rgb += 3) {
    if (format == FORMAT_GREY) {
      *to++ = (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
      continue;
    }
    *to++ = format == FORMAT_BGR ? rgb[2] : rgb[0];
    *to++ = rgb[1];
    *to++ = format == FORMAT_BGR ? rgb[0] : rgb[2];
  }
}

static tenon_status_t decode_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = 3;
  for (int i = 0; i < 2; i++)
    out->dims[i] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
  out->dims[2] = tenon_extent(infer->attrs[0].as.i == FORMAT_GREY ? 1 : 3);
  return TENON_OK;
}

static tenon_status_t decode_run(tenon_call_t *call) {
  const tenon_tensor_t *file = call->inputs[0];
  const int64_t format = call->attrs[0].as.i;
  image_t image = {.call = call, .data = file->data, .size = (size_t)tenon_count(file)};
  TENON_TRY(decode_any(&image));
  const int64_t shape[3] = {image.height, image.width, format == FORMAT_GREY ? 1 : 3};
  TENON_TRY(call->host->resize(call, 0, 3, shape));
  put_pixels(&image, format, call->outputs[0]->data);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(images, "1.0.0",
  TENON_OP("decode(Tensor x, *, str['RGB', 'BGR', 'Grayscale'] pixel_format='RGB') -> Tensor",
    TENON_DOC("The pixels [height, width, channels] of a picture, whose file is x."),
    TENON_TYPES("x: u8; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(decode_infer),
    TENON_KERNEL("cpu", decode_run)))
/* clang-format on */
