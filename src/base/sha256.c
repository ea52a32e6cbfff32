/* SHA-256 as defined by FIPS 180-4, section 6.2. The names are those of the standard. */
#include "base/sha256.h"

#include <string.h>

#include "base/text.h"

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* Round t. The caller rotates the eight variables by one position per round, so that no values are
 * copied. */
#define ROUND(a, b, c, d, e, f, g, h, t)                                                           \
  do {                                                                                             \
    uint32_t T1 = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +           \
                  (g ^ (e & (f ^ g))) + K[t] + W[t];                                               \
    d += T1;                                                                                       \
    h = T1 + (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +                    \
        ((a & b) | (c & (a | b)));                                                                 \
  } while (0)

static void add_block(uint32_t H[8], const uint8_t *block) {
  uint32_t W[64];
  uint32_t a = H[0];
  uint32_t b = H[1];
  uint32_t c = H[2];
  uint32_t d = H[3];
  uint32_t e = H[4];
  uint32_t f = H[5];
  uint32_t g = H[6];
  uint32_t h = H[7];
  for (int t = 0; t < 16; t++, block += 4)
    W[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
  for (int t = 16; t < 64; t++)
    W[t] = (rotate_right(W[t - 2], 17) ^ rotate_right(W[t - 2], 19) ^ W[t - 2] >> 10) + W[t - 7] +
           (rotate_right(W[t - 15], 7) ^ rotate_right(W[t - 15], 18) ^ W[t - 15] >> 3) + W[t - 16];
  for (int t = 0; t < 64; t += 8) {
    ROUND(a, b, c, d, e, f, g, h, t);
    ROUND(h, a, b, c, d, e, f, g, t + 1);
    ROUND(g, h, a, b, c, d, e, f, t + 2);
    ROUND(f, g, h, a, b, c, d, e, t + 3);
    ROUND(e, f, g, h, a, b, c, d, t + 4);
    ROUND(d, e, f, g, h, a, b, c, t + 5);
    ROUND(c, d, e, f, g, h, a, b, t + 6);
    ROUND(b, c, d, e, f, g, h, a, t + 7);
  }
  H[0] += a;
  H[1] += b;
  H[2] += c;
  H[3] += d;
  H[4] += e;
  H[5] += f;
  H[6] += g;
  H[7] += h;
}

void tn_sha256(const void *data, size_t size, uint8_t hash[TN_SHA256_SIZE]) {
  uint32_t H[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t last[128] = {0};
  const uint8_t *at = data;
  const uint64_t bits = (uint64_t)size * 8;
  for (; size >= 64; at += 64, size -= 64)
    add_block(H, at);
  if (size) memcpy(last, at, size);
  last[size] = 0x80;
  const size_t whole = size < 56 ? 64 : 128;
  for (int i = 0; i < 8; i++)
    last[whole - 1 - (size_t)i] = (uint8_t)(bits >> 8 * i);
  for (size_t i = 0; i < whole; i += 64)
    add_block(H, last + i);
  for (int i = 0; i < TN_SHA256_SIZE; i++)
    hash[i] = (uint8_t)(H[i / 4] >> (24 - 8 * (i % 4)));
}

void tn_sha256_text(const uint8_t hash[TN_SHA256_SIZE], char text[TN_SHA256_TEXT]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < TN_SHA256_SIZE; i++) {
    *text++ = digits[hash[i] >> 4];
    *text++ = digits[hash[i] & 15];
  }
  *text = 0;
}

bool tn_sha256_parse(const char *text, size_t size, uint8_t hash[TN_SHA256_SIZE]) {
  if (size != 2 * TN_SHA256_SIZE) return false;
  for (size_t i = 0; i < size; i++) {
    int value = tn_hex_digit(text[i]);
    if (value < 0) return false;
    hash[i / 2] = (uint8_t)(i % 2 ? hash[i / 2] | value : value << 4);
  }
  return true;
}
