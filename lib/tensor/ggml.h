/* ggml block types by their ids in GGUF files, and scalar codecs of the blocks we know (formats.md 5.3, 5.4). */
#ifndef INFQ_TENSOR_GGML_H
#define INFQ_TENSOR_GGML_H

#include "lib/tensor/weight.h"

/* Name, elements and bytes a block of a ggml type id; false if the id is unknown. */
bool infq_ggml_type(uint32_t id, const char **name, int *block, int *block_bytes);
/* infq_elem of the id, NONE if not decodable here. */
infq_elem infq_ggml_elem(uint32_t id);
/* n elements (a multiple of the block) to or from F32. Encoders equal ggml's reference encoders byte for
 * byte (specs/vectors/ggml_blocks.json). UNSUPPORTED for other elems; NUMERIC for non-finite input. */
infq_status infq_ggml_decode(infq_elem e, const void *src, int64_t n, float *dst, infq_err *err);
infq_status infq_ggml_encode(infq_elem e, const float *src, int64_t n, void *dst, infq_err *err);

#endif
