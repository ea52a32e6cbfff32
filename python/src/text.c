/* Texts that libtenon returns, as Python strings. */
#include "text.h"

#include "error.h"

PyObject *text_take(tenon_status_t status, char *text) {
  if (status != TENON_OK) return raise_status(status);
  PyObject *object = PyUnicode_FromString(text);
  tenon_text_release(text);
  return object;
}
