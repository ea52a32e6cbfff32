/* SHA-256 (FIPS 180-4) of data in memory. */
#ifndef TN_BASE_SHA256_H
#define TN_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  TN_SHA256_SIZE = 32,
  TN_SHA256_TEXT = 65,
};

void tn_sha256(const void *data, size_t size, uint8_t out_hash[TN_SHA256_SIZE]);
void tn_sha256_text(const uint8_t hash[TN_SHA256_SIZE], char out_text[TN_SHA256_TEXT]);
/* Parses exactly 64 hexadecimal digits of either case. Returns false for any other text. */
bool tn_sha256_parse(const char *text, size_t size, uint8_t out_hash[TN_SHA256_SIZE]);

#endif
