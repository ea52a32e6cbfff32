/* Library files: any bytes are described, or reported as wrong, without running them and without
 * reading beyond them. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "loader/binary.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  unsigned char *copy = malloc(size + (size == 0));
  tn_binary_t binary;
  tn_text_t offences = {0};
  tn_text_t text = {0};
  if (!copy) return 0;
  if (size) memcpy(copy, data, size);
  tn_file_t file = {copy, size};
  memset(&binary, 0, sizeof binary);
  tn_binary_read(&file, &binary, &offences);
  tn_binary_check(&binary, &offences);
  (void)tn_binary_exports(&file, "tenon_library", false);
  (void)tn_binary_exports(&file, "tenon_", true);
  tn_binary_names(&text, &binary.needed);
  tn_binary_names(&text, &binary.exports);
  tn_binary_names(&text, &binary.pins);
  tn_binary_initialisers(&text, &binary);
  tn_binary_quote(&text, binary.name);
  tn_binary_quote(&text, binary.run_path);
  tn_text_clear(&offences);
  tn_text_clear(&text);
  free(copy);
  return 0;
}
