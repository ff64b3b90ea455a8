"""Memory of CPU tensors by DLPack, for those that lack the buffer protocol, such as torch's."""

from __future__ import annotations

import ctypes
from typing import Any

from ._kinds import Kind, of_name

_CPU = 1  # kDLCPU of dlpack.h
_CLASSES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}  # DLDataTypeCode; 5 is complex


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def view(owner: Any) -> tuple[memoryview, Kind]:
    """The memory of a tensor, and its type. The tensor lives as long as the view."""
    if owner.__dlpack_device__()[0] != _CPU:
        raise TypeError("the tensor is not in the memory of the CPU: copy it there")
    capsule = owner.__dlpack__()
    # A DLManagedTensor begins with its DLTensor. As the capsule keeps its name, its own destructor frees the tensor.
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    count = 1
    for length in shape:
        count *= length
    if tensor.strides and count:
        expected = 1
        for length, stride in reversed([(shape[i], tensor.strides[i]) for i in range(tensor.ndim)]):
            if length != 1 and stride != expected:
                raise ValueError("the tensor is not contiguous; contiguous() makes a copy that is")
            expected *= length
    if tensor.lanes != 1 or tensor.bits % 8:
        raise TypeError("a tensor of vectors, or of parts of bytes")
    size = tensor.bits // 8
    kind = Kind(size, None)
    if tensor.code == 5:
        kind = Kind(size, {8: "complex-f32", 16: "complex-f64"}.get(size))
    elif tensor.code == 6:
        kind = of_name("bool")
    elif tensor.code in _CLASSES:
        kind = of_name(f"{_CLASSES[tensor.code]}{tensor.bits}")
    if count == 0:
        return memoryview(bytearray()), kind
    memory = (ctypes.c_uint8 * (count * size)).from_address(tensor.data + tensor.byte_offset)
    memory.owner = (owner, capsule)
    return memoryview(memory), kind
