/* Prints the source that a device would compile: source_text LANGUAGE FILE KERNEL|"" CONSTANTS|""
 * NAME... prints it for the named kernel, or for all; the names are those in the file's
 * TENON_CODE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/program.h"

int main(int argc, char **argv) {
  FILE *file = argc > 5 ? fopen(argv[2], "rb") : NULL;
  static char content[1 << 20];
  tenon_code_kernel_t kernels[400];
  tn_text_t text = {0};
  if (!file || argc > 400) {
    fprintf(stderr, "source_text LANGUAGE FILE KERNEL|'' CONSTANTS|'' NAME...\n");
    return 2;
  }
  size_t size = fread(content, 1, sizeof content, file);
  uint32_t count = (uint32_t)argc - 5;
  uint32_t wanted = 0;
  for (uint32_t i = 0; i < count; i++)
    kernels[i] = (tenon_code_kernel_t){argv[5 + i], NULL, NULL};
  while (wanted < count && strcmp(argv[3], kernels[wanted].name) != 0)
    wanted++;
  if (fclose(file) || size == sizeof content || (*argv[3] && wanted == count)) {
    fprintf(stderr, "source_text: %s is too large, or has no kernel '%s'\n", argv[2], argv[3]);
    return 2;
  }
  tenon_code_t code = {sizeof code, count, content, content + size, argv[2], kernels, 0};
  tn_program_text((uint32_t)atoi(argv[1]), &code, wanted, argv[4], &text);
  fwrite(text.data, 1, text.size, stdout);
  return text.failed || fflush(stdout) ? 1 : 0;
}
