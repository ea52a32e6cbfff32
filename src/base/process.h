/* Programs that are run beside this one: compilers.  A command is an argument list, never a shell's
 * text. */
#ifndef TN_BASE_PROCESS_H
#define TN_BASE_PROCESS_H

#include "base/text.h"

typedef struct tn_words_t { /* each ends with a 0 */
  tn_text_t text;
  size_t count;
} tn_words_t;
void tn_words_add(tn_words_t *words, const char *format, ...) TENON_FORMAT(2, 3);
void tn_words_clear(tn_words_t *words);
#define TN_EACH_WORD(word, words)                                                                  \
  for (const char *word = tn_text_get(&(words)->text), *end_##word = word + (words)->text.size;    \
       word < end_##word; word += strlen(word) + 1)

/* The file of a program: of PATH, or with a separator as it is; false: there is none that can be
 * run. */
bool tn_process_find(const char *name, char *out_path, size_t capacity);
/* Starts a program that is looked for in PATH.  What it says goes to the end of two files, which
 * may be one; it reads nothing. */
tenon_status_t tn_process_start(const tn_words_t *words, const char *output, const char *errors,
                                int64_t *out_id);
/* Waits for its end; OK if that was exit status 0.  `name` is for the message. */
tenon_status_t tn_process_wait(int64_t id, const char *name);

#endif
