/* Reads the messages of a library that were not read before. Called wherever a function of a
 * library has failed. The lock library->messages protects the number of messages that were read. */
#include "message.h"

#include <stdio.h>
#include <string.h>

void hosted_messages(hosted_t *library, char *why, size_t capacity) {
  size_t used = strlen(why);
  if (!library->abi._msgSize) {
    snprintf(why + used, capacity - used,
             " (libraries of version 7 print the reason on standard output)");
    return;
  }
  pthread_mutex_lock(&library->messages);
  const int count = library->abi._msgSize();
  for (int i = library->message_count; i < count && used < capacity; i++) {
    const char *message = NULL;
    library->abi._msgGet(i, &message);
    if (message)
      used += (size_t)snprintf(why + used, capacity - used, "%s%s",
                               i == library->message_count ? ": " : "; ", message);
  }
  library->message_count = count;
  pthread_mutex_unlock(&library->messages);
}
