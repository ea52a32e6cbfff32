/* Tensors with made-up contents; see fill.h.  The numbers depend on seed, stream and position
 * alone. */
#include "fill.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"

typedef struct filling_t {
  uint64_t seed;
  uint64_t first; /* number of the stream that element 0 begins with */
  int64_t count;
  element_class_t class;
  double limit; /* integers are below this */
} filling_t;

typedef double (*fill_fn)(const filling_t *filling, int64_t index);

static double fill_zero(const filling_t *filling, int64_t index) {
  (void)filling;
  (void)index;
  return 0;
}

static double fill_one(const filling_t *filling, int64_t index) {
  (void)filling;
  (void)index;
  return 1;
}

static double fill_ramp(const filling_t *filling, int64_t index) {
  bool whole = filling->class == ELEMENT_INT || filling->class == ELEMENT_UINT;
  return whole ? (double)index : (double)index / (double)filling->count;
}

static double fill_random(const filling_t *filling, int64_t index) {
  double unit =
      1.0 / 4294967296.0; /* two numbers an element: Box and Muller's normal distribution */
  uint64_t at = filling->first + 2 * (uint64_t)index;
  double a = ((double)tenon_random(filling->seed, at) + 0.5) * unit;
  double b = ((double)tenon_random(filling->seed, at + 1) + 0.5) * unit;
  bool real = filling->class == ELEMENT_FLOAT || filling->class == ELEMENT_COMPLEX;
  return real ? sqrt(-2 * log(a)) * cos(6.283185307179586 * b) : floor(a * filling->limit);
}

static const struct {
  const char *word;
  fill_fn function;
} words[] = {
    {"zeros", fill_zero}, {"ones", fill_one}, {"ramp", fill_ramp}, {"random", fill_random}};

/* The function of `word`; its seed is put into out_seed. */
static fill_fn find_generator(const char *word, uint64_t *out_seed) {
  size_t size = strcspn(word, ":");
  char *end = NULL;
  *out_seed = 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strlen(words[i].word) != size || strncmp(words[i].word, word, size) != 0) continue;
    if (!word[size]) return words[i].function;
    errno = 0;
    *out_seed = strtoull(word + size + 1, &end, 10);
    return words[i].function == fill_random && end > word + size + 1 && !*end && !errno
               ? fill_random
               : NULL;
  }
  return NULL;
}

bool fill_is_word(const char *word) {
  uint64_t seed;
  return find_generator(word, &seed) != NULL;
}

bool fill_tensor(tenon_tensor_t *tensor, const char *word, uint32_t stream, text_t *why) {
  filling_t filling = {.first = (uint64_t)stream << 40, .count = tenon_count(tensor)};
  fill_fn function = find_generator(word, &filling.seed);
  filling.class = element_class(tensor->dtype);
  filling.limit = 10;
  if (!function || filling.class == ELEMENT_OTHER || filling.class == ELEMENT_LIST) {
    text_add(why, "a tensor of %s cannot be made by '%s'", tenon_dtype_name(tensor->dtype), word);
    return false;
  }
  if (filling.class != ELEMENT_FLOAT && filling.class != ELEMENT_COMPLEX &&
      filling.class != ELEMENT_STRING && element_largest(tensor->dtype) < 9)
    filling.limit = element_largest(tensor->dtype) + 1;
  for (int64_t i = 0; i < filling.count; i++) {
    double number = function(&filling, i);
    if (filling.class == ELEMENT_STRING) {
      char letter = (char)('a' + (int)number % 26);
      if (tenon_tensor_set_string(tensor, i, &letter, 1) != TENON_OK) {
        text_add(why, "%s", tenon_error());
        return false;
      }
    } else {
      if (filling.class == ELEMENT_COMPLEX)
        memset((char *)tensor->data + i * (tensor->dtype.bits / 8), 0, tensor->dtype.bits / 8);
      element_set(tensor, i, number);
    }
  }
  return true;
}
