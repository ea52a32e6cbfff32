/* Operators of ONNX Runtime; see export_operators.h. */
#include "export_operators.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "print_error.h"
#include "system.h"
#include "text.h"

/* `report` has lines of name, tab, reason why the operator was left out; "": it was not. */
static int print_operators(const char *report, const char *output, bool is_strict) {
  text_t left_out = {NULL, 0, 0, false};
  int32_t given = 0;
  for (const char *at = report; *at; at = strchr(at, '\n') + 1) {
    const char *why = strchr(at, '\t') + 1;
    given += *why == '\n';
    if (*why != '\n')
      text_add(&left_out, "  %.*s: %.*s\n", (int)(why - 1 - at), at, (int)strcspn(why, "\n"), why);
  }
  int code = EXIT_FINE;
  if (left_out.size && is_strict)
    code = print_failure("these operators cannot be operators of ONNX Runtime:\n%s",
                         text_get(&left_out));
  else if (!given)
    code = print_failure("the library has no operator that ONNX Runtime can have:\n%s",
                         text_get(&left_out));
  const char *plural = given == 1 ? "" : "s";
  if (code == EXIT_FINE) {
    printf("exported %s: %d operator%s", output, (int)given, plural);
    if (left_out.size) printf("; not exported:");
    printf("\n%s", text_get(&left_out));
  }
  text_free(&left_out);
  return code;
}

int export_operators_check(const char *made, const char *output, bool is_strict) {
  static const char *const names[] = {"tenon_export_check", "tenon_export_report"};
  text_t why = {NULL, 0, 0, false};
  void (*functions[2])(void);
  int code = EXIT_FINE;
  if (!system_module_open(made, names, 2, functions, &why))
    code = print_failure("%s cannot be opened: %s", made, text_get(&why));
  text_free(&why);
  if (code != EXIT_FINE) return code;
  const char *failure = ((const char *(*)(void))functions[0])();
  if (*failure) return print_failure("%s", failure);
  char *report = ((char *(*)(void))functions[1])();
  if (!report) return print_failure("out of memory");
  code = print_operators(report, output, is_strict);
  free(report);
  return code;
}
