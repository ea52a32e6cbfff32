/* Names of operators, inputs and attributes in TensorFlow. */
#include "name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "operator.h"

/* Writes a word of an operator's name: "max_pool" becomes "MaxPool", "gelu.out" becomes
 * "Gelu_out". An underscore before another character than a lower-case letter stays. */
static bool append_word(char *out, size_t capacity, size_t *used, const char *word, size_t size) {
  bool is_first = true;
  for (size_t i = 0; i < size; i++) {
    char c = word[i];
    if (c == '_' && i && i + 1 < size && islower((unsigned char)word[i + 1])) {
      is_first = true;
      continue;
    }
    if (c == '.') c = '_';
    if (is_first) c = (char)toupper((unsigned char)c);
    if (i == 0 && !isupper((unsigned char)c)) return false;
    is_first = false;
    if ((!isalnum((unsigned char)c) && c != '_') || *used + 2 > capacity) return false;
    out[(*used)++] = c;
  }
  out[*used] = 0;
  return size > 0;
}

bool operator_name(const char *name, char *out_name, size_t capacity) {
  const char *colons = strstr(name, "::");
  size_t used = 0;
  if (!colons) return false;
  used = (size_t)snprintf(out_name, capacity, "Tenon>");
  if (!append_word(out_name, capacity, &used, name, (size_t)(colons - name))) return false;
  if (used + 2 > capacity) return false;
  out_name[used++] = '>';
  return append_word(out_name, capacity, &used, colons + 2, strlen(colons + 2));
}

bool name_argument(const char *name, char out_name[NAME_MOST]) {
  const size_t size = strlen(name);
  if (size + 2 > NAME_MOST || !isalpha((unsigned char)*name)) return false;
  for (size_t i = 0; i < size; i++) {
    if (!isalnum((unsigned char)name[i]) && name[i] != '_') return false;
    out_name[i] = (char)tolower((unsigned char)name[i]);
  }
  out_name[size] = 0;
  if (strcmp(out_name, "name") == 0) strcat(out_name, "_");
  return true;
}
