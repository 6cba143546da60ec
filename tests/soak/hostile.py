"""Requests that must be refused, each with the status that it must get."""

from work import CHAT, PLAIN_TEXT

DEEP = b'{"prompt":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
SYSTEM_HOST = b"Host: localhost\r\n"

# Path, body, status; with a key.
BODIES = [
    (PLAIN_TEXT, b"", 400),
    (PLAIN_TEXT, b"{}", 400),
    (PLAIN_TEXT, b"[]", 400),
    (PLAIN_TEXT, b'{"prompt":"a"', 400),
    (PLAIN_TEXT, DEEP, 400),
    (PLAIN_TEXT, b'{"prompt":"a","temperature":1e309}', 400),
    (PLAIN_TEXT, b'{"prompt":"\xff\xfe"}', 400),
    (PLAIN_TEXT, b'{"prompt":[-1]}', 400),
    (PLAIN_TEXT, b'{"prompt":[4096]}', 400),
    (PLAIN_TEXT, b'{"prompt":"a","max_tokens":-2}', 400),
    (PLAIN_TEXT, b'{"prompt":"a","n":1000000}', 400),
    (PLAIN_TEXT, b'{"prompt":"a","frobnicate":1}', 400),
    (PLAIN_TEXT, b'{"prompt":"a","experts_per_token":5}', 400),
    (PLAIN_TEXT, b'{"prompt":"a","logit_bias":{"4096":1}}', 400),
    (PLAIN_TEXT, b'{"prompt":"' + b"word " * 5000 + b'","stream":true}', 400),
    (PLAIN_TEXT, b'{"prompt":"a","model":"another"}', 404),
    (PLAIN_TEXT, b'{"prompt":"' + b"a" * (2 << 20) + b'"}', 413),
    (CHAT, b'{"messages":[]}', 400),
    (CHAT, b'{"messages":"hi"}', 400),
    ("/v1/embeddings", b'{"input":[[]]}', 400),
    ("/detokenize", b'{"tokens":[1e9]}', 400),
    ("/nothing", b"{}", 404),
]

# Bytes and status; without a key.
HEADS = [
    (b"GET /v1/models HTTP/1.1\r\n" + SYSTEM_HOST + b"\r\n", 401),
    (b"GET /health HTTP/1.1\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
    (b"GET /health HTTP/1.1\r\n" + SYSTEM_HOST + b"X: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    (b"GET /health HTTP/1.1\r\n" + SYSTEM_HOST + b"X: a\r\n" * 10_000 + b"\r\n", 431),
    (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + SYSTEM_HOST + b"\r\n", 414),
    (b"GET /health HTTP/3.0\r\n" + SYSTEM_HOST + b"\r\n", 505),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    (b"POST /tokenize HTTP/1.1\r\n" + SYSTEM_HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400),
    (b"POST /tokenize HTTP/1.1\r\n" + SYSTEM_HOST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 401),
]
