/* Regular expressions, by PCRE2 if it is installed. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

/* Matches three strings. */
static tenon_status_t match(const char *pattern, const char *const *texts, tenon_tensor_t **out) {
  const tenon_op_t *op = op_of("core::regex_full_match");
  const int64_t count = 3;
  tenon_tensor_t *x = NULL;
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t value = {TENON_KIND_STR, (uint32_t)strlen(pattern), {.s = pattern}};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_STRING), 1, &count, &x), TENON_OK);
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(tenon_tensor_set_string(x, i, texts[i], strlen(texts[i])), TENON_OK);
  CHECK_STATUS(tenon_attrs_create(op, &attrs), TENON_OK);
  CHECK_STATUS(tenon_attrs_set(attrs, "pattern", &value), TENON_OK);
  *out = NULL;
  const tenon_status_t status = tenon_op_call(op, attr_values(attrs), &x, out, 0);
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
  return status;
}

static const char *const texts[] = {"www.google.com", "google.com", "\xc3\xa4\xc3\xb6"};

TEST("a string matches as a whole, and letters are those of Unicode") {
  tenon_tensor_t *out;
  if (match("x", texts, &out) == TENON_UNIMPLEMENTED) {
    CHECK_TEXT(CHECK_MESSAGE(), "libpcre2-8.so.0 is not installed");
    SKIP("libpcre2-8.so.0 is not installed");
  }
  tenon_tensor_release(out);
  CHECK_STATUS(match("www\\.[\\w.-]+\\.\\bcom\\b", texts, &out), TENON_OK);
  CHECK_TENSOR(out, "bool[3] 1 0 0");
  tenon_tensor_release(out);
  CHECK_STATUS(match("google", texts, &out), TENON_OK);
  CHECK_TENSOR(out, "bool[3] 0 0 0");
  tenon_tensor_release(out);
  CHECK_STATUS(match("..|google\\.com", texts, &out), TENON_OK);
  CHECK_TENSOR(out, "bool[3] 0 1 1");
  tenon_tensor_release(out);
}

TEST("a wrong pattern, a wrong string and too many steps are errors") {
  tenon_tensor_t *out;
  static const char *const bad[] = {"\xff", "a", "b"};
  static const char *const slow[] = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!b", "a",
                                     "b"};
  if (match("x", texts, &out) == TENON_UNIMPLEMENTED) SKIP("libpcre2-8.so.0 is not installed");
  tenon_tensor_release(out);
  CHECK_STATUS(match("a(b", texts, &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "pattern 'a(b': byte 3: missing closing parenthesis");
  CHECK_STATUS(match(".*", bad, &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "string 0 cannot be matched: UTF-8 error");
  CHECK_STATUS(match("((a|aa)+)+b", slow, &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "string 0 cannot be matched: match limit exceeded");
}
