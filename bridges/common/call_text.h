/* The text of a custom call that calls an operator of Tenon:
 *
 *     core::concat(3); axis=1
 *
 * the operator, the number of operands of each tensor argument ("-": absent), and the attributes as
 * literals of the schema language, or as a tensor:
 *
 *     core::label_encode(1); keys=i32[2] 0100000003000000; ...
 *
 * dtype, shape, and two hexadecimal digits for each byte of the elements. Names that begin with "@"
 * are not attributes: they are bits. The bridge to StableHLO reads such texts, too. */
#ifndef BRIDGES_COMMON_CALL_TEXT_H
#define BRIDGES_COMMON_CALL_TEXT_H

#include <stdbool.h>
#include <tenon/tenon.h>

enum { TEXT_NAME_MOST = 512, TEXT_OPERANDS_MOST = 256 };

typedef struct text_t { /* A reader; the text ends with a zero byte. */
  const char *text;
  const char *at;
} text_t;

typedef struct text_bits_t {
  uint64_t wanted;     /* results; 0: all */
  uint64_t padded;     /* results whose buffer is larger than they are */
  uint64_t given;      /* gradients: the results that have one */
  uint64_t inputs;     /* gradients: the inputs that get one */
  uint64_t is_forward; /* 1: tangents of `inputs` become those of `given` */
} text_bits_t;

/* Fails with the place in the text and what was expected there. */
tenon_status_t text_fail(const text_t *text, const char *expected);
/* Skips a word if it comes next. */
bool text_take(text_t *text, const char *word);
/* Reads the name of the operator, up to the bracket, which is skipped. */
tenon_status_t text_read_name(text_t *text, char name[TEXT_NAME_MOST]);
/* Reads the number of operands of each input, -1 for an absent one, and the closing bracket. */
tenon_status_t text_read_counts(text_t *text, uint32_t input_count, const bool *is_list,
                                int32_t *out_counts, uint32_t *out_total);
/* Reads attributes and bits, to the end. `attrs` NULL: there are no attributes. */
tenon_status_t text_read_fields(text_t *text, tenon_attrs_t *attrs, text_bits_t *out_bits);

#endif
