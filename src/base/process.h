/* Child processes, such as compilers. A command is a list of arguments; no shell is involved. */
#ifndef TN_BASE_PROCESS_H
#define TN_BASE_PROCESS_H

#include "base/text.h"

/* A list of arguments, each terminated by 0. */
typedef struct tn_words_t {
  tn_text_t text;
  size_t count;
} tn_words_t;
void tn_words_add(tn_words_t *words, const char *format, ...) TENON_FORMAT(2, 3);
void tn_words_clear(tn_words_t *words);
#define TN_EACH_WORD(word, words)                                                                  \
  for (const char *word = tn_text_get(&(words)->text), *end_##word = word + (words)->text.size;    \
       word < end_##word; word += strlen(word) + 1)

/* Finds a program in PATH; a name with a separator is used as it is. Returns false if no executable
 * file is found. */
bool tn_process_find(const char *name, char *out_path, size_t capacity);
/* Starts a program found in PATH. Its output and errors are appended to two files, which may be the
 * same; its input is empty. */
tenon_status_t tn_process_start(const tn_words_t *words, const char *output, const char *errors,
                                int64_t *out_id);
/* Waits for the process to end. OK means exit status 0. `name` is used in the message. */
tenon_status_t tn_process_wait(int64_t id, const char *name);

#endif
