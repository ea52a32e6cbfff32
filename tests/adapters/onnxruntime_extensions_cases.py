"""Calls of operators of onnxruntime-extensions, for ONNX Runtime and for Tenon.  Vocabularies and files are made here."""
import io
import json
import struct
import wave
import zlib

import numpy as np

CONTRIB, EXTENSIONS = "ai.onnx.contrib", "com.microsoft.extensions"


def texts(*items):
    return np.array(items, object)


def ints(*items):
    return np.array(items, np.int64)


def floats(*items):
    return np.array(items, np.float32)


def byte_letters():
    """The letters by which byte-level tokenizers write the 256 bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return [chr(b if b in kept else 256 + others.index(b)) for b in range(256)]


MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]
BPE = {t: i for i, t in enumerate([*byte_letters(), *(m.replace(" ", "") for m in MERGES), "<|endoftext|>", "<s>", "</s>", "<unk>"])}
CLIP_MERGES = ["h e", "l l", "he ll", "hell o</w>", "w o", "r l", "wo rl", "worl d</w>"]
CLIP = {t: i for i, t in enumerate([*byte_letters(), *(c + "</w>" for c in byte_letters()), *(m.replace(" ", "") for m in CLIP_MERGES), "<|startoftext|>", "<|endoftext|>"])}
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "un", "##aff", "##able", "aff", ",", "!", "a", "b", "##b"]
TRIE = "\n".join(f"{i} {token!r} {len(token.encode())}" for i, token in enumerate(["a", "b", "ab", " ", "hello", " world", "h", "e", "l", "o", "w", "r", "d"], 1)) + "\n"


def picture():
    """A PNG of 5 x 4 pixels."""
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 4, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def sound():
    """A WAV file of 800 samples."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(16000)
        wav.writeframes((np.sin(np.arange(800) / 9) * 20000).astype("<i2").tobytes())
    return file.getvalue()


def sentencepiece():
    """A model of SentencePiece with a few pieces, in its binary form, which contains zero bytes."""
    field = lambda number, data: bytes([number << 3 | 2, len(data)]) + data
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), *((p, -float(i), 1) for i, p in enumerate(["▁hello", "▁world", "▁", "h", "e", "l", "o", "w", "r", "d"]))]
    made = b"".join(field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, kind])) for text, score, kind in pieces)
    return made + field(2, bytes([3 << 3, 1])) + field(3, field(1, b"identity"))


def u8(data):
    return np.frombuffer(data, np.uint8)


F = np.array([[1.5, -2.0, 3.25], [0.5, 4.0, -6.0]], np.float32)
SPM_SETTINGS = [ints(1), floats(0.5), np.array([False]), np.array([False]), np.array([False])]
CASES = {  # the domain, the operator, inputs, attributes, the number of results
    "StringLower": (CONTRIB, [texts("Abc", "ÄÖ", "")], {}, 1),
    "StringUpper": (CONTRIB, [texts("Abc", "straße", "")], {}, 1),
    "StringStrip": (CONTRIB, [texts("  a b ", "\tx\n")], {}, 1),
    "StringLength": (CONTRIB, [texts("abc", "Grüße", "")], {}, 1),
    "StringConcat": (CONTRIB, [texts("a", "b"), texts("x", "yz")], {}, 1),
    "StringEqual": (CONTRIB, [texts("a", "b"), texts("a", "c")], {}, 1),
    "StringJoin": (CONTRIB, [np.array([["a", "b"], ["c", "d"]], object), texts("-"), ints(1)], {}, 1),
    "StringSplit": (CONTRIB, [texts("a b c", "d e"), texts(" "), np.array([True])], {}, 3),
    "StringToHashBucket": (CONTRIB, [texts("abc", "def", ""), ints(97)], {}, 1),
    "StringToHashBucketFast": (CONTRIB, [texts("abc", "def", ""), ints(97)], {}, 1),
    "StringRegexReplace": (CONTRIB, [texts("a1b22", "c"), texts(r"(\d+)"), texts(r"<\1>")], {}, 1),
    "StringRegexSplitWithOffsets": (CONTRIB, [texts("a1b22c", "xyz"), texts(r"(\d)"), texts(r"\d")], {}, 4),
    "StringECMARegexReplace": (CONTRIB, [texts("a1b22", "c"), texts(r"(\d+)"), texts(r"<$1>")], {"ignore_case": 1}, 1),
    "StringECMARegexSplitWithOffsets": (CONTRIB, [texts("a1b22c", "xyz"), texts(r"(\d)"), texts(r"\d")], {}, 4),
    "StringMapping": (CONTRIB, [texts("a", "b", "c")], {"map": "a\tone\nb\ttwo"}, 1),
    "StringToVector": (CONTRIB, [texts("a", "b", "c")], {"map": "a\t1 2\nb\t3 4", "unk": "-1 -2"}, 1),
    "VectorToString": (CONTRIB, [ints(0, 1, 5)], {"map": "a\t0\nb\t1", "unk": "?"}, 1),
    "MaskedFill": (CONTRIB, [texts("a", "b", "c"), np.array([True, False, True])], {}, 1),
    "NegPos": (CONTRIB, [F], {}, 2),
    "Inverse": (CONTRIB, [np.array([[2, 1], [1, 3]], np.float32)], {}, 1),
    "ArgSort": (CONTRIB, [floats(3, 1, 2).reshape(1, 3), np.array(1)], {}, 1),
    "SegmentSum": (CONTRIB, [F, ints(0, 1)], {}, 1),
    "SegmentExtraction": (CONTRIB, [ints(0, 1, 1, 0, 2, 2, 2, 0)], {}, 2),
    "RaggedTensorToSparse": (CONTRIB, [ints(0, 2, 5)], {}, 2),
    "RaggedTensorToDense": (CONTRIB, [ints(), ints(1, 2, 3, 4, 5), ints(-1), ints(0, 2, 5)], {}, 1),
    "StringRaggedTensorToDense": (CONTRIB, [ints(), texts("a", "b", "c"), ints(0, 2, 3), texts("-")], {}, 1),
    "StftNorm": (CONTRIB, [(np.sin(np.arange(64) / 3)).astype(np.float32)[None], ints(16), ints(8), np.hanning(16).astype(np.float32), ints(16)], {}, 1),
    "SplitSignalSegments": (CONTRIB, [np.r_[np.zeros(1600), np.sin(np.arange(1600) / 5), np.zeros(1600)].astype(np.float32)[None], ints(16000), ints(10), ints(5), floats(10)], {}, 1),
    "MergeSignalSegments": (CONTRIB, [np.array([[0, 100], [120, 200], [900, 1000]], np.int64), ints(50)], {}, 1),
    "AudioDecoder": (CONTRIB, [u8(sound())[None], texts("wav")], {}, 1),
    "DecodeImage": (EXTENSIONS, [u8(picture())], {}, 1),
    "EncodeImage": (EXTENSIONS, [(np.arange(60, dtype=np.uint8) * 4).reshape(4, 5, 3)], {"format": "png"}, 1),
    "DrawBoundingBoxes": (EXTENSIONS, [np.zeros((20, 30, 3), np.uint8), np.array([[3, 4, 20, 15, 0.9, 1]], np.float32)], {"thickness": 2, "num_classes": 3, "mode": "XYXY", "colour_by_classes": 1}, 1),
    "GPT2Tokenizer": (EXTENSIONS, [texts("hello world", "old")], {"vocab": json.dumps(BPE), "merges": "#version: 0.2\n" + "\n".join(MERGES), "padding_length": -1}, 2),
    "CLIPTokenizer": (EXTENSIONS, [texts("hello world", "world hello")], {"vocab": json.dumps(CLIP), "merges": "#version: 0.2\n" + "\n".join(CLIP_MERGES), "padding_length": -1}, 3),
    "RobertaTokenizer": (EXTENSIONS, [texts("hello world", "hello world")], {"vocab": json.dumps({**BPE, "<pad>": 900}), "merges": "#version: 0.2\n" + "\n".join(MERGES), "padding_length": -1}, 3),
    "BpeDecoder": (EXTENSIONS, [ints(BPE["hello"], BPE["Ġworld"])], {"id_vocab": "\n".join(BPE), "byte_decoder": "\n".join(f"{ord(c)}\t{b}" for b, c in enumerate(byte_letters())), "added_tokens": "", "all_special_ids": "", "en_normalization": 0, "skip_special_tokens": 0, "whitespace_token": 0, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}, 1),
    "BertTokenizer": (EXTENSIONS, [texts("Hello unaffable world!")], {"vocab_file": "\n".join(BERT) + "\n", "do_lower_case": 1}, 4),
    "HfBertTokenizer": (EXTENSIONS, [texts("Hello world", "abb")], {"vocab_file": "\n".join(BERT) + "\n"}, 3),
    "BasicTokenizer": (EXTENSIONS, [texts("Hello, World!")], {"do_lower_case": 1}, 1),
    "BertTokenizerDecoder": (EXTENSIONS, [ints(2, 5, 7, 8, 9, 6, 3), np.zeros((0, 2), np.int64)], {"vocab_file": "\n".join(BERT) + "\n", "skip_special_tokens": 1}, 1),
    "WordpieceTokenizer": (EXTENSIONS, [texts("unaffable hello abb"), ints()], {"vocab": json.dumps({t: i for i, t in enumerate(BERT)}), "unknown_token": "[UNK]", "suffix_indicator": "##", "max_input_chars_per_word": 200}, 4),
    "TrieTokenizer": (EXTENSIONS, [texts("hello world", "abab")], {"vocab": TRIE}, 1),
    "TrieDetokenizer": (EXTENSIONS, [np.array([[5, 6], [3, 3]], np.int64)], {"vocab": TRIE}, 1),
    "SentencepieceTokenizer": (EXTENSIONS, [texts("hello world", "low"), *SPM_SETTINGS], {"model": sentencepiece()}, 2),
    "SentencepieceDecoder": (EXTENSIONS, [ints(3, 4)], {"model": sentencepiece()}, 1),
}
