/* Latency records of requests, their percentiles, and the decision about a target.
 *
 * Definitions (times in ns, from the moment the request was due):
 *   TTFT  time to first token: until the first sampled token is known
 *   ITL   inter-token latency: between two consecutive tokens of one request
 *   E2E   end to end: until the last token
 *   TPOT  time per output token: (E2E - TTFT) / (tokens - 1), one value a request */
#ifndef INFQ_BENCH_LATENCY_H
#define INFQ_BENCH_LATENCY_H

#include <stdint.h>

#include "lib/base/err.h"

typedef struct {
    int64_t due_ns;          /* when the request was to start */
    int64_t n_prompt, n_tokens;
    int64_t *token_ns;       /* [n_tokens] when each token was known; owned by the record list */
} infq_request_record;

typedef enum { INFQ_METRIC_TTFT, INFQ_METRIC_ITL, INFQ_METRIC_TPOT, INFQ_METRIC_E2E, INFQ_METRIC_COUNT } infq_metric;
const char *infq_metric_name(infq_metric m); /* "ttft", "itl", "tpot", "e2e" */

/* Percentile estimates in ms of the pooled values of n requests. 95 % interval of a percentile of per-request
 * metrics: order statistics (exact, distribution-free; hi = INFINITY when n is too small for an upper end). ITL values of
 * one request depend on each other: there the interval is a bootstrap over requests (1,000 resamples, seeded). */
typedef struct {
    int64_t n;               /* values */
    double mean_ms;
    double p_ms[4];          /* P50 P90 P95 P99 */
    double lo_ms[4], hi_ms[4];
} infq_latency_summary;
extern const double infq_latency_percentiles[4];
infq_status infq_latency_summarize(const infq_request_record *r, int64_t n, infq_metric m, infq_latency_summary *out,
                                   infq_err *err);

/* A target written down before the run: "p90 ttft < 200ms", units us, ms, s; a percentile is required, because a mean or
 * an unnamed statistic hides the tail. USAGE says what is missing. */
typedef struct {
    double percentile;       /* 0.90 */
    infq_metric metric;
    double limit_ms;
    const char *text;        /* borrowed */
} infq_target;
infq_status infq_target_parse(const char *text, infq_target *out, infq_err *err);

typedef enum { INFQ_TARGET_MET, INFQ_TARGET_NOT_MET, INFQ_TARGET_UNDECIDED } infq_target_verdict;
const char *infq_target_verdict_name(infq_target_verdict v); /* "met", "not met", "undecided" */
typedef struct {
    infq_target_verdict verdict;
    double value_ms, lo_ms, hi_ms; /* the percentile and its 95 % interval */
    double share_over, share_lo, share_hi; /* share of values at or over the limit; one-sided 95 % limits */
    int64_t n_requests;
    int64_t n_needed;        /* requests after which "met" would be possible if none more is over; 0 if decided */
} infq_target_result;
/* Met: the upper 95 % limit of the share over the limit is at most 1 - percentile; not met: its lower limit is above.
 * Per-request metrics: Clopper and Pearson. ITL: mean of the requests' shares with a t limit over requests, or Clopper
 * and Pearson over requests when no share varies. */
infq_status infq_target_decide(const infq_target *t, const infq_request_record *r, int64_t n, infq_target_result *out,
                               infq_err *err);

#endif
