/* JSON: writes texts, and reads single members of small files, such as those of ONNX's test
 * cases. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include "text.h"

/* Adds `text` in quotes, escaped; NULL: null. Bytes that are not valid UTF-8 become U+FFFD. */
void json_add_text(text_t *out, const char *text);
/* Reads the value of the first member called `name`; false if there is none of this type. */
bool json_find_number(const char *json, const char *name, double *out_number);
bool json_find_text(const char *json, const char *name, text_t *out_text);

#endif
