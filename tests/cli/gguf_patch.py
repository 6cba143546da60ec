"""Changes bytes of small GGUF files, to make the hostile ones that no tool would write."""

import struct


def with_tensor_type(data, name, type_id):
    """The same file, with the type of one tensor changed in the directory and nowhere else."""
    field = struct.pack("<Q", len(name)) + name.encode()
    at = data.index(field) + len(field)
    (n_dims,) = struct.unpack_from("<I", data, at)
    at += 4 + 8 * n_dims
    return data[:at] + struct.pack("<I", type_id) + data[at + 4 :]


def with_string(data, key, value):
    """The same file, with another text of the same length for a key that holds a string."""
    field = struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", 8)
    at = data.index(field) + len(field)
    (length,) = struct.unpack_from("<Q", data, at)
    assert length == len(value), (length, value)
    return data[: at + 8] + value.encode() + data[at + 8 + length :]


def with_first_float(data, offset, value):
    """The same file, with another 32-bit float at a byte offset."""
    return data[:offset] + struct.pack("<f", value) + data[offset + 4 :]


ALIGNMENT = 32  # of tensor data, where a file does not say otherwise


def with_chat_template(data, source):
    """The same file with one key more. A comment at the template's end keeps the tensors where they must be."""
    key = b"tokenizer.chat_template"
    template = source.encode("utf-8") + b"{##}"
    n_bytes = 8 + len(key) + 4 + 8 + len(template)
    template = template[:-2] + b" " * (-n_bytes % ALIGNMENT) + b"#}"
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(template)) + template
    magic, version, n_tensors, n_keys = struct.unpack_from("<IIQQ", data)
    return struct.pack("<IIQQ", magic, version, n_tensors, n_keys + 1) + entry + data[24:]
