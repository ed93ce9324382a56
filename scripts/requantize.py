"""Writes a GGUF model again with 8-bit weights: `python requantize.py from.gguf to.gguf`. Needs the `gguf` package.

The small model that ships in a package has 4-bit weights (Q4_1), which not every server reads.
"""

from __future__ import annotations

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, quants

Q8 = GGMLQuantizationType.Q8_0
_WRITTEN_ANYWAY = ("general.architecture", "general.file_type", "general.quantization_version")
_FILE_TYPE_Q8 = 7


def requantize(source: str, target: str) -> None:
    reader = GGUFReader(source)
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for field in reader.fields.values():
        if field.name in _WRITTEN_ANYWAY or field.name.startswith("GGUF."):
            continue
        is_array = field.types[0] == GGUFValueType.ARRAY
        writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1] if is_array else None)
    writer.add_file_type(_FILE_TYPE_Q8)
    writer.add_quantization_version(2)
    for tensor in reader.tensors:
        if tensor.tensor_type == GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, np.array(tensor.data))
        else:
            plain = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            writer.add_tensor(tensor.name, quants.quantize(plain, Q8), raw_dtype=Q8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    requantize(sys.argv[1], sys.argv[2])
