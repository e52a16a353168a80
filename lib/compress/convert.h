/* infq convert: the same weights in another container or element type. Nothing is compressed here. */
#ifndef INFQ_COMPRESS_CONVERT_H
#define INFQ_COMPRESS_CONVERT_H

#include "lib/format/format.h"

typedef struct {
    const char *out_path;    /* folder, or a bare file when it ends in .safetensors */
    bool cast;               /* every float tensor becomes `dtype` */
    infq_dtype dtype;        /* F32 F16 BF16 F8_E4M3 F8_E5M2 */
    bool dequantize;         /* quantized weights become dense, of `dtype` or (without cast) BF16 */
    bool force;
    uint64_t shard_bytes;    /* 0: 5e9 */
} infq_convert_options;

typedef struct {
    int64_t n_tensors, n_cast, n_decoded;
    uint64_t bytes_in, bytes_out; /* of weight files */
    size_t n_shards;
} infq_convert_report;

/* Tensors are streamed in pieces of a few MB. NUMERIC names tensor and index when a finite value would become infinite, and
 * when FP8 is asked for and the source holds NaN or infinity; finite values beyond FP8 saturate. Casting a quantized
 * checkpoint needs `dequantize` (USAGE). Side files are copied byte for byte; config.json changes only in torch_dtype
 * (dtype), and loses quantization_config when dequantized. NOSPACE before anything is written when the disk is too small. */
infq_status infq_convert_run(const infq_checkpoint *ck, const infq_convert_options *o, const infq_log *log,
                             infq_convert_report *out, infq_err *err);

/* One .gguf file (llama architecture; F32, F16, BF16, Q8_0, Q4_0, Q4_1 tensors) to a folder: weights decoded to o->dtype (BF16
 * without cast), names and rotary row order of transformers, config.json from the metadata, tokenizer.json when the
 * vocabulary is byte-level BPE (warned of otherwise). */
infq_status infq_convert_gguf(const char *path, const infq_convert_options *o, const infq_log *log, infq_convert_report *out,
                              infq_err *err);

/* Element type by the spelling of the command line (f32, bf16, f16, f8_e4m3, f8_e5m2), case-insensitive. */
bool infq_convert_dtype(const char *text, infq_dtype *out);

#endif
