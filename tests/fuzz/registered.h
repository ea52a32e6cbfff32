/* What the fuzz targets for libraries share: the number of registered operators, and a look at all
 * that a registered library shows. */
#ifndef TN_FUZZ_REGISTERED_H
#define TN_FUZZ_REGISTERED_H

#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static void wrong(const char *what) {
  fprintf(stderr, "wrong: %s; last message: %s\n", what, tenon_error());
  abort();
}

static int32_t count_ops(void) {
  const tenon_op_t *const *ops;
  int32_t count = 0;
  if (tenon_ops_list(&ops, &count) != TENON_OK) wrong("operators cannot be listed");
  tenon_ops_release(ops);
  return count;
}

static void look(const tenon_library_t *library) {
  for (int32_t i = 0; i < tenon_library_op_count(library); i++) {
    const tenon_op_t *op = tenon_library_op(library, i);
    tenon_op_info_t info = {.size = sizeof info};
    tenon_argument_t argument = {.size = sizeof argument};
    char *text = NULL;
    tenon_op_info(op, &info);
    for (uint32_t role = 0; role < 3; role++)
      for (int32_t k = 0; tenon_op_argument(op, role, k, &argument) == TENON_OK; k++)
        if (!argument.name) wrong("an argument without a name");
    if (tenon_op_dump(op, &text) != TENON_OK) wrong("an operator that cannot be shown");
    tenon_text_release(text);
    for (int32_t k = 0; (text = tenon_op_kernel(op, k)); k++)
      tenon_text_release(text);
    if (tenon_op_check(op) != TENON_OK) wrong("an operator whose table is wrong");
  }
}

#endif
