/* The kernels of each CPU level. */
#include "kernels/cpu/cpu_int.h"

void infq_few_i8_scalar(const infq_cpu_few *a, int64_t r0, int64_t r1)
{
    const infq_weight *w = a->w;

    for (int64_t r = r0; r < r1; r++) {
        const int8_t *p = (const int8_t *)w->codes.data + (size_t)r * w->codes.row_bytes;
        for (int64_t t = 0; t < a->n_tokens; t++) {
            const int8_t *x = (const int8_t *)a->prep + (size_t)t * a->prep_stride;
            int32_t sum = 0;
            for (int64_t k = 0; k < w->n_cols; k++)
                sum += (int32_t)p[k] * x[k];
            a->y[t * w->n_rows + r] =
                infq_cpu_i8_out(sum, a->x_scale[t], infq_cpu_scale(w, r, 0), a->bias, r);
        }
    }
}

#define FLOATS(isa, panel_rows, n_lanes)                                                           \
    .decode_row = infq_decode_row_##isa, .act_row = infq_act_row_##isa,                            \
    .act_i8_row = infq_act_i8_row_##isa,                                                           \
    .gemm = { .panel = panel_rows,                                                                 \
              .lanes = n_lanes,                                                                    \
              .pack = infq_gemm_pack_##isa,                                                        \
              .tile = infq_gemm_tile_##isa },                                                      \
    .few_f32 = infq_few_f32_##isa, .few_bf16 = infq_few_bf16_##isa, .few_f16 = infq_few_f16_##isa, \
    .few_e4m3 = infq_few_e4m3_##isa, .few_any = infq_few_any_##isa, .rmsnorm = infq_rmsnorm_##isa, \
    .layernorm = infq_layernorm_##isa, .rope = infq_rope_##isa, .glu = infq_glu_##isa,             \
    .add = infq_add_##isa, .round = infq_round_##isa, .logsumexp = infq_logsumexp_##isa, .attend_rows = panel_rows,                   \
    .attend_floats = infq_attend_floats_##isa, .attend = infq_attend_##isa
#define INTS(isa)                                                                                  \
    .few_u4 = infq_few_u4_##isa, .few_u8 = infq_few_u8_##isa, .few_i8 = infq_few_i8_##isa,         \
    .prep_u4 = { infq_prep_u4_bytes_##isa, infq_prep_u4_##isa },                                   \
    .prep_u8 = { infq_prep_u8_bytes_##isa, infq_prep_u8_##isa }

static const infq_cpu_kernels tables[] = {
    { .level = INFQ_CPU_SCALAR,
      FLOATS(scalar, INFQ_PANEL_SCALAR, 1),
      .few_i8 = infq_few_i8_scalar },
#if defined(__x86_64__)
    { .level = INFQ_CPU_AVX2, FLOATS(avx2, INFQ_PANEL_AVX2, 8), INTS(avx2) },
    { .level = INFQ_CPU_AVX512, FLOATS(avx512, INFQ_PANEL_AVX512, 16), INTS(avx2) },
    { .level = INFQ_CPU_VNNI, FLOATS(avx512, INFQ_PANEL_AVX512, 16), INTS(vnni) },
#endif
};

const infq_cpu_kernels *infq_cpu_kernels_get(void)
{
    size_t level = (size_t)infq_cpu_level_get(), n = sizeof(tables) / sizeof(tables[0]);

    return &tables[level < n ? level : n - 1];
}
