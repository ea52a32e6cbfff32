/* Lowerings of operators on strings. */
#include "import/onnx/lower.h"

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"StringConcat(a, b) = string_concat(a, b)", 20, NULL},
  {"StringSplit(x) = string_split(x, delimiter=delimiter, maxsplit=maxsplit)", 20, NULL},
  {"StringNormalizer(x, -locale) = "
   "string_normalizer(x, case=case_change_action, is_case_sensitive=is_case_sensitive, "
   "stopwords=stopwords)", 10, NULL},
  {"RegexFullMatch(x) = regex_full_match(x, pattern=pattern)", 20, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_text, "");
