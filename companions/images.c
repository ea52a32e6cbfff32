/* images::decode: pictures in files as pixels; ONNX's ImageDecoder. A library of operators of its
 * own, because libtenon depends on no library for pictures: libjpeg and libpng read their formats,
 * libwebp, libtiff and libopenjp2 are opened at run time for theirs, and this file reads BMP (24
 * and 32 bits, not compressed) and binary PNM (8 bits).
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

#ifndef PIXELS_MAX /* the fuzz target permits fewer, which are read in less time */
#define PIXELS_MAX (1 << 28)
#endif
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
  size_t at; /* where libtiff and libopenjp2 read */
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
  /* Before the start, which takes memory for all coefficients of a progressive file. */
  TENON_TRY(set_size(image, "JPEG", jpeg->image_width, jpeg->image_height));
  jpeg_start_decompress(jpeg);
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

/* Reads the pixels as they are, and leaves the alpha out. libpng would blend with what is in the
 * memory of the result. */
static tenon_status_t read_png(image_t *image, png_image *png) {
  if (!(png->format & PNG_FORMAT_FLAG_ALPHA)) {
    png->format = PNG_FORMAT_RGB;
    if (png_image_finish_read(png, NULL, image->rgb, 0, NULL)) return TENON_OK;
    return fail_image(image, "PNG", png->message);
  }
  const int64_t count = image->width * image->height;
  uint8_t *pixels = image->call->host->allocate(image->call, (uint64_t)count * 4);
  if (!pixels) return TENON_MEMORY;
  png->format = PNG_FORMAT_RGBA;
  if (!png_image_finish_read(png, NULL, pixels, 0, NULL))
    return fail_image(image, "PNG", png->message);
  for (int64_t i = 0; i < count; i++)
    memcpy(image->rgb + i * 3, pixels + i * 4, 3);
  return TENON_OK;
}

static tenon_status_t decode_png(image_t *image) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_memory(&png, image->data, image->size))
    return fail_image(image, "PNG", png.message);
  tenon_status_t status = set_size(image, "PNG", png.width, png.height);
  if (status == TENON_OK) status = read_png(image, &png);
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

/* JPEG 2000 */

enum {
  OPJ_CODESTREAM = 0,
  OPJ_JP2 = 2,
  OPJ_SYCC = 3,
  OPJ_EYCC = 4,
  OPJ_CMYK = 5,
  OPJ_COMPONENTS = 4, /* the colours, and an alpha, which is left out */
};
typedef struct opj_component_t {
  uint32_t step_x; /* one sample for so many points of the grid */
  uint32_t step_y;
  uint32_t width;
  uint32_t height;
  uint32_t x;
  uint32_t y;
  uint32_t precision; /* bits of a sample */
  uint32_t unused;
  uint32_t is_signed;
  uint32_t resolutions;
  uint32_t reduced;
  int32_t *samples;
  uint16_t alpha;
} opj_component_t;
typedef struct opj_picture_t {
  uint32_t x;
  uint32_t y;
  uint32_t x_end;
  uint32_t y_end;
  uint32_t count;
  int colours;
  opj_component_t *components;
} opj_picture_t;
typedef union opj_parameters_t { /* more than the library writes: two paths and some numbers */
  uint64_t aligned;
  uint8_t bytes[1 << 14];
} opj_parameters_t;
typedef struct opj_codec_t opj_codec_t;
typedef struct opj_stream_t opj_stream_t;
typedef struct opj_functions_t {
  opj_codec_t *(*create)(int);
  void (*set_defaults)(opj_parameters_t *);
  int (*setup)(opj_codec_t *, opj_parameters_t *);
  int (*set_error_handler)(opj_codec_t *, void (*)(const char *, void *), void *);
  opj_stream_t *(*open)(int);
  void (*set_read)(opj_stream_t *, size_t (*)(void *, size_t, void *));
  void (*set_skip)(opj_stream_t *, int64_t (*)(int64_t, void *));
  void (*set_seek)(opj_stream_t *, int (*)(int64_t, void *));
  void (*set_data)(opj_stream_t *, void *, void (*)(void *));
  void (*set_size)(opj_stream_t *, uint64_t);
  int (*read_header)(opj_stream_t *, opj_codec_t *, opj_picture_t **);
  int (*decode)(opj_codec_t *, opj_stream_t *, opj_picture_t *);
  void (*free_picture)(opj_picture_t *);
  void (*free_codec)(opj_codec_t *);
  void (*close)(opj_stream_t *);
} opj_functions_t;
typedef struct opj_words_t { /* the first message of an error */
  char text[200];
} opj_words_t;

static size_t opj_read(void *to, size_t size, void *context) {
  image_t *image = context;
  const size_t left = image->at < image->size ? image->size - image->at : 0;
  const size_t count = size < left ? size : left;
  if (!count) return (size_t)-1; /* the end of the file */
  memcpy(to, image->data + image->at, count);
  image->at += count;
  return count;
}
static int64_t opj_skip(int64_t count, void *context) {
  image_t *image = context;
  const int64_t left = (int64_t)(image->size - image->at);
  if (count < 0 || count > left) return -1;
  image->at += (size_t)count;
  return count;
}
static int opj_seek(int64_t to, void *context) {
  image_t *image = context;
  if (to < 0 || (uint64_t)to > image->size) return 0;
  image->at = (size_t)to;
  return 1;
}
static void opj_failed(const char *text, void *context) {
  opj_words_t *words = context;
  if (!words->text[0])
    snprintf(words->text, sizeof words->text, "%.*s", (int)strcspn(text, "\r\n"), text);
}

static tenon_status_t open_openjpeg(const image_t *image, opj_functions_t *f) {
  const image_function_t functions[] = {{"opj_create_decompress", &f->create},
                                        {"opj_set_default_decoder_parameters", &f->set_defaults},
                                        {"opj_setup_decoder", &f->setup},
                                        {"opj_set_error_handler", &f->set_error_handler},
                                        {"opj_stream_default_create", &f->open},
                                        {"opj_stream_set_read_function", &f->set_read},
                                        {"opj_stream_set_skip_function", &f->set_skip},
                                        {"opj_stream_set_seek_function", &f->set_seek},
                                        {"opj_stream_set_user_data", &f->set_data},
                                        {"opj_stream_set_user_data_length", &f->set_size},
                                        {"opj_read_header", &f->read_header},
                                        {"opj_decode", &f->decode},
                                        {"opj_image_destroy", &f->free_picture},
                                        {"opj_destroy_codec", &f->free_codec},
                                        {"opj_stream_destroy", &f->close}};
  return open_functions(image, "libopenjp2.so.7", "libopenjp2-7", functions,
                        sizeof functions / sizeof *functions);
}

/* Refuses what cannot be shown as red, green and blue. Called before memory is taken for samples,
 * and again for the samples: a palette makes other components of them. */
static tenon_status_t check_components(const image_t *image, const opj_picture_t *picture) {
  if (picture->count < 1 || picture->count > OPJ_COMPONENTS || picture->colours == OPJ_CMYK)
    return tenon_fail(image->call, TENON_UNIMPLEMENTED,
                      "a JPEG 2000 file has %u components%s: expected 1 to 4, which are grey, or "
                      "red, green and blue, or a luminance and two chrominances, and an alpha",
                      picture->count, picture->colours == OPJ_CMYK ? " of printing inks" : "");
  uint32_t left = PIXELS_MAX; /* the library takes 8 bytes for each sample while it decodes */
  for (uint32_t i = 0; i < picture->count; i++) {
    const opj_component_t *c = &picture->components[i];
    if (c->precision < 1 || c->precision > 31)
      return fail_image(image, "JPEG 2000", "expected samples of 1 to 31 bits");
    if (!c->width || !c->height || !c->step_x || !c->step_y || c->height > left / c->width)
      return fail_image(image, "JPEG 2000", "expected 1 to 2^28 samples in all components");
    left -= c->width * c->height;
  }
  return TENON_OK;
}

/* The place along one axis, among the `count` samples of a component, of a point of the grid. */
static int64_t sample_place(int64_t point, int64_t begin, int64_t step, int64_t count) {
  const int64_t place = point / step - (begin + step - 1) / step;
  if (place < 0) return 0;
  return place < count ? place : count - 1;
}

/* A sample as 0 to 255, at the pixel x, y of the first component. */
static int64_t get_sample(const opj_picture_t *picture, uint32_t index, int64_t x, int64_t y) {
  const opj_component_t *first = picture->components;
  const opj_component_t *c = &picture->components[index];
  const int64_t left = ((int64_t)picture->x + first->step_x - 1) / first->step_x;
  const int64_t top = ((int64_t)picture->y + first->step_y - 1) / first->step_y;
  const int64_t column = sample_place((left + x) * first->step_x, picture->x, c->step_x, c->width);
  const int64_t row = sample_place((top + y) * first->step_y, picture->y, c->step_y, c->height);
  const int64_t largest = ((int64_t)1 << c->precision) - 1;
  int64_t value = c->samples[row * c->width + column];
  if (c->is_signed) value += (largest + 1) / 2;
  if (value < 0) value = 0;
  if (value > largest) value = largest;
  return (value * 255 + largest / 2) / largest;
}

static uint8_t round_byte(double value) {
  if (value <= 0) return 0;
  return value >= 255 ? 255 : (uint8_t)(value + 0.5);
}

/* A luminance and two chrominances of ITU-R 601 as red, green and blue. */
static void convert_ycc(uint8_t *rgb) {
  const double luminance = rgb[0];
  const double blue = rgb[1] - 128.0;
  const double red = rgb[2] - 128.0;
  rgb[0] = round_byte(luminance + 1.402 * red);
  rgb[1] = round_byte(luminance - 0.344136 * blue - 0.714136 * red);
  rgb[2] = round_byte(luminance + 1.772 * blue);
}

static tenon_status_t put_samples(image_t *image, const opj_picture_t *picture) {
  const uint32_t colours = picture->count < 3 ? 1 : 3;
  const opj_component_t *c = picture->components;
  /* A file without a colour space whose second component has fewer samples is one of luminance. */
  const int is_halved = colours == 3 && c[0].step_x == c[0].step_y && c[1].step_x != c[0].step_x;
  const int is_ycc =
      colours == 3 && (picture->colours == OPJ_SYCC || picture->colours == OPJ_EYCC || is_halved);
  for (uint32_t i = 0; i < colours; i++)
    if (!c[i].samples) return fail_image(image, "JPEG 2000", "it has no pixels");
  TENON_TRY(set_size(image, "JPEG 2000", c->width, c->height));
  uint8_t *to = image->rgb;
  for (int64_t y = 0; y < image->height; y++)
    for (int64_t x = 0; x < image->width; x++, to += 3) {
      for (uint32_t i = 0; i < 3; i++)
        to[i] = (uint8_t)get_sample(picture, i < colours ? i : 0, x, y);
      if (is_ycc) convert_ycc(to);
    }
  return TENON_OK;
}

static tenon_status_t read_jpeg2000(image_t *image, const opj_functions_t *f, opj_codec_t *codec,
                                    opj_stream_t *stream) {
  opj_parameters_t parameters;
  opj_words_t words = {""};
  opj_picture_t *picture = NULL;
  tenon_status_t status = TENON_OK;
  f->set_defaults(&parameters);
  f->set_error_handler(codec, opj_failed, &words);
  f->set_read(stream, opj_read);
  f->set_skip(stream, opj_skip);
  f->set_seek(stream, opj_seek);
  f->set_data(stream, image, NULL);
  f->set_size(stream, image->size);
  int is_read = f->setup(codec, &parameters) && f->read_header(stream, codec, &picture);
  if (is_read) status = check_components(image, picture);
  if (is_read && status == TENON_OK) {
    is_read = f->decode(codec, stream, picture);
    if (is_read) status = check_components(image, picture);
    if (is_read && status == TENON_OK) status = put_samples(image, picture);
  }
  if (!is_read)
    status = fail_image(image, "JPEG 2000", words.text[0] ? words.text : "its header is wrong");
  if (picture) f->free_picture(picture);
  return status;
}

static tenon_status_t decode_jpeg2000(image_t *image) {
  opj_functions_t f;
  TENON_TRY(open_openjpeg(image, &f));
  opj_codec_t *codec = f.create(image->data[0] ? OPJ_CODESTREAM : OPJ_JP2);
  opj_stream_t *stream = f.open(1);
  tenon_status_t status = TENON_MEMORY;
  if (codec && stream) status = read_jpeg2000(image, &f, codec, stream);
  if (stream) f.close(stream);
  if (codec) f.free_codec(codec);
  return status;
}

/* The operator */

static const struct {
  const char *begin;
  size_t size;
  tenon_status_t (*decode)(image_t *image);
} formats[] = {{"\xff\xd8\xff", 3, decode_jpeg},
               {"\x89PNG", 4, decode_png},
               {"BM", 2, decode_bmp},
               {"P5", 2, decode_pnm},
               {"P6", 2, decode_pnm},
               {"II*\0", 4, decode_tiff},
               {"MM\0*", 4, decode_tiff},
               {"RIFF", 4, decode_webp},
               {"\0\0\0\x0cjP  ", 8, decode_jpeg2000},
               {"\xff\x4f\xff\x51", 4, decode_jpeg2000}};

static tenon_status_t decode_any(image_t *image) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (image->size >= formats[i].size && !memcmp(image->data, formats[i].begin, formats[i].size))
      return formats[i].decode(image);
  }
  return tenon_fail(image->call, TENON_INVALID,
                    "the first bytes are those of no known format: expected JPEG, JPEG 2000, PNG, "
                    "BMP, PNM, TIFF or WebP");
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
