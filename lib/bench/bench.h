/* Runs requests one after the other on the built-in engine (closed loop, one request at a time) and reports.
 * Prompts are seeded random tokens, different in every request, so that nothing is reused. */
#ifndef INFQ_BENCH_BENCH_H
#define INFQ_BENCH_BENCH_H

#include "lib/base/log.h"
#include "lib/bench/latency.h"
#include "lib/bench/roofline.h"
#include "lib/model/model.h"

typedef struct {
    int64_t n_prompt;        /* prompt tokens of a request */
    int64_t n_tokens;        /* tokens to generate */
    int64_t n_warmup, n_repeats;
    uint64_t seed;
} infq_bench_options;
infq_bench_options infq_bench_options_default(void);

typedef struct {
    infq_bench_options options;
    infq_request_record *warmup, *requests; /* owned */
    int64_t *token_block;    /* storage of their times */
    infq_latency_summary latency[INFQ_METRIC_COUNT];
    double prefill_tokens_per_s; /* median over requests of n_prompt / TTFT */
    double decode_tokens_per_s;  /* median over requests of 1 / TPOT */
    double decode_bytes;     /* weights and cache read by one decode step, at mid generation */
    double decode_bytes_per_s, share_of_bandwidth;
    double prefill_flop_per_s, share_of_flops;
    infq_roofline roofline;
    size_t weight_bytes, kv_bytes_predicted; /* of the longest sequence of the run */
    size_t rss_before, rss_peak;             /* of the process, bytes */
    double warmup_ttft_ms;   /* the very first request */
} infq_bench_result;

/* Deinit frees the records. USAGE when prompt and tokens exceed the model's context; INTERRUPTED. */
infq_status infq_bench_run(infq_model *m, infq_backend *be, const infq_bench_options *o, const infq_log *log,
                           infq_bench_result *out, infq_err *err);
void infq_bench_result_deinit(infq_bench_result *r);

#endif
