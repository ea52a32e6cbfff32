/* SHA-256 against NIST's examples: FIPS 180-4, and "SHA-2 Additional" of the cryptographic
 * toolkit. */
#include "base/sha256.h"

#include <stdlib.h>

#include "check.h"

static const struct {
  const char *text; /* or */
  int byte;
  size_t size;
  const char *hash;
} cases[] = {
    {"", 0, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 0, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 0, 56,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"\xc9\x8c\x8e\x55", 0, 4, "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504"},
    {NULL, 0xbd, 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
    {NULL, 0, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"},
    {NULL, 0, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"},
    {NULL, 0, 57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785"},
    {NULL, 0, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
    {NULL, 0, 1000, "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53"},
    {NULL, 'A', 1000, "c2e686823489ced2017f6059b8b239318b6364f6dcd835d0a519105a1eadd6e4"},
    {NULL, 'U', 1005, "f4d62ddec0f3dd90ea1380fa16a5ff8dc4c54b21740650f24afc4120903552b0"},
    {NULL, 'a', 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    {NULL, 0, 1000000, "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025"},
};

TEST("hashes equal the examples of the standard") {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t hash[TN_SHA256_SIZE], again[TN_SHA256_SIZE];
    char text[TN_SHA256_TEXT];
    char *data = malloc(cases[i].size + 1);
    if (!CHECK(data != NULL)) return;
    if (cases[i].text)
      memcpy(data, cases[i].text, cases[i].size);
    else
      memset(data, cases[i].byte, cases[i].size);
    tn_sha256(data, cases[i].size, hash);
    tn_sha256_text(hash, text);
    CHECK_TEXT(text, cases[i].hash);
    CHECK(tn_sha256_parse(cases[i].hash, 64, again) && memcmp(hash, again, sizeof hash) == 0);
    free(data);
  }
}

TEST("a text that is not a hash is refused") {
  const char *good = cases[0].hash;
  char text[80];
  uint8_t hash[TN_SHA256_SIZE];
  CHECK(!tn_sha256_parse(good, 63, hash) && !tn_sha256_parse(good, 0, hash));
  for (size_t i = 0; i < 64; i++) {
    static const char wrong[] = "g/:@G` ";
    snprintf(text, sizeof text, "%s", good);
    text[i] = wrong[i % 7];
    CHECK(!tn_sha256_parse(text, 64, hash));
  }
  snprintf(text, sizeof text, "%s0", good);
  CHECK(!tn_sha256_parse(text, 65, hash));
  CHECK(tn_sha256_parse("E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855", 64,
                        hash) &&
        hash[1] == 0xb0);
}
