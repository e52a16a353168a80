#include "lib/bench/bench.h"

#include <math.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"
#include "lib/eval/stats.h"

infq_bench_options infq_bench_options_default(void)
{
    infq_bench_options o = { 128, 32, 3, 30, 1 };

    return o;
}

void infq_bench_result_deinit(infq_bench_result *r)
{
    infq_mem_free(r->warmup);
    infq_mem_free(r->requests);
    infq_mem_free(r->token_block);
    memset(r, 0, sizeof(*r));
}

// Buffers of one run.
typedef struct {
    int32_t *prompt;
    float *hidden, *logits;
} scratch;

static infq_status one_request(infq_model *m, const infq_bench_options *o, scratch *s, infq_rng *rng,
                               infq_request_record *rec, infq_err *err)
{
    const infq_config *c = infq_model_config(m);
    infq_forward_options fo = { .invariant = false };
    infq_segment seg;
    infq_seq *seq = NULL;
    infq_status st;
    int32_t token;

    for (int64_t i = 0; i < o->n_prompt; i++)
        s->prompt[i] = (int32_t)infq_rng_below(rng, (uint64_t)c->vocab);
    INFQ_TRY(infq_seq_new(m, &seq, err));
    rec->due_ns = infq_time_ns();
    seg.seq = seq;
    seg.tokens = s->prompt;
    seg.n_tokens = o->n_prompt;
    seg.n_last = 1;
    for (int64_t i = 0;; i++) {
        st = infq_model_forward(m, &seg, 1, &fo, s->hidden, err);
        if (!st)
            st = infq_model_logits(m, s->hidden, 1, false, s->logits, err);
        if (st)
            break;
        token = infq_argmax(s->logits, c->vocab);
        rec->token_ns[i] = infq_time_ns();
        rec->n_tokens = i + 1;
        if (i + 1 == o->n_tokens)
            break;
        seg.tokens = &token;
        seg.n_tokens = 1;
    }
    rec->n_prompt = o->n_prompt;
    infq_seq_free(seq);
    return st;
}

// One request with all threads standing by from the prompt to the last token.
typedef struct {
    infq_model *m;
    const infq_bench_options *o;
    scratch *s;
    infq_rng *rng;
    infq_request_record *rec;
    infq_err *err;
    infq_status st;
} request_call;

static void request_in_team(void *ctx)
{
    request_call *c = ctx;

    c->st = one_request(c->m, c->o, c->s, c->rng, c->rec, c->err);
}

static infq_status run_request(infq_model *m, const infq_bench_options *o, scratch *s, infq_rng *rng,
                               infq_request_record *rec, infq_err *err)
{
    request_call c = { m, o, s, rng, rec, err, INFQ_E_OK };

    infq_par_team(request_in_team, &c);
    return c.st;
}

static infq_status check_options(const infq_config *c, const infq_bench_options *o, infq_err *err)
{
    if (o->n_prompt < 1 || o->n_tokens < 1 || o->n_repeats < 1 || o->n_warmup < 0)
        return infq_err_set(err, INFQ_E_USAGE, "prompt, tokens and repeats must be at least 1");
    if (o->n_prompt + o->n_tokens > c->max_positions)
        return infq_err_set(err, INFQ_E_USAGE, "%lld prompt and %lld new tokens exceed the model's context of %lld",
                            (long long)o->n_prompt, (long long)o->n_tokens, (long long)c->max_positions);
    return INFQ_E_OK;
}

static infq_status new_records(infq_bench_result *r, infq_err *err)
{
    const infq_bench_options *o = &r->options;
    int64_t n = o->n_warmup + o->n_repeats;
    size_t cells;
    void *p;

    if (!infq_mul_size((size_t)n, (size_t)o->n_tokens, &cells))
        return infq_err_set(err, INFQ_E_USAGE, "too many repeats");
    INFQ_TRY(infq_mem_new(cells, sizeof(int64_t), "token times", &p, err));
    r->token_block = p;
    INFQ_TRY(infq_mem_new((size_t)o->n_warmup + 1, sizeof(*r->warmup), "records", &p, err));
    r->warmup = p;
    INFQ_TRY(infq_mem_new((size_t)o->n_repeats, sizeof(*r->requests), "records", &p, err));
    r->requests = p;
    for (int64_t i = 0; i < n; i++) {
        infq_request_record *rec = i < o->n_warmup ? &r->warmup[i] : &r->requests[i - o->n_warmup];
        rec->token_ns = r->token_block + i * o->n_tokens;
    }
    return INFQ_E_OK;
}

// Median over requests of one rate; the array is scratch of n values.
static double median(double *v, int64_t n)
{
    infq_sort(v, n);
    return infq_percentile(v, n, 0.5);
}

static infq_status derive(infq_model *m, infq_bench_result *r, infq_err *err)
{
    const infq_bench_options *o = &r->options;
    const infq_config *c = infq_model_config(m);
    int64_t n = o->n_repeats;
    double kv_position, *v;
    void *p;

    for (int k = 0; k < INFQ_METRIC_COUNT; k++)
        INFQ_TRY(infq_latency_summarize(r->requests, n, (infq_metric)k, &r->latency[k], err));
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(double), "rates", &p, err));
    v = p;
    for (int64_t i = 0; i < n; i++)
        v[i] = (double)o->n_prompt / ((double)(r->requests[i].token_ns[0] - r->requests[i].due_ns) * 1e-9);
    r->prefill_tokens_per_s = median(v, n);
    // Only the last prompt token goes through the head.
    r->prefill_flop_per_s = r->prefill_tokens_per_s / (double)o->n_prompt * infq_model_flop(m, o->n_prompt, 1);
    r->share_of_flops = r->prefill_flop_per_s / r->roofline.flop_per_s;
    if (o->n_tokens > 1) {
        for (int64_t i = 0; i < n; i++)
            v[i] = (double)(o->n_tokens - 1) /
                   ((double)(r->requests[i].token_ns[o->n_tokens - 1] - r->requests[i].token_ns[0]) * 1e-9);
        r->decode_tokens_per_s = median(v, n);
        kv_position = 2.0 * (double)c->n_layers * (double)c->n_kv_heads * (double)c->head_dim * sizeof(float);
        r->decode_bytes = (double)r->weight_bytes + kv_position * ((double)o->n_prompt + (double)o->n_tokens / 2);
        r->decode_bytes_per_s = r->decode_bytes * r->decode_tokens_per_s;
        r->share_of_bandwidth = r->decode_bytes_per_s / r->roofline.read_bytes_per_s;
    }
    infq_mem_free(v);
    return INFQ_E_OK;
}

infq_status infq_bench_run(infq_model *m, infq_backend *be, const infq_bench_options *o, const infq_log *log,
                           infq_bench_result *out, infq_err *err)
{
    const infq_config *c = infq_model_config(m);
    infq_bench_result r;
    scratch s = { NULL, NULL, NULL };
    infq_rng rng = infq_rng_seed(o->seed);
    infq_status st;
    void *p;

    memset(&r, 0, sizeof(r));
    r.options = *o;
    INFQ_TRY(check_options(c, o, err));
    st = new_records(&r, err);
    if (st)
        goto done;
    st = infq_mem_new((size_t)o->n_prompt, sizeof(int32_t), "prompt", &p, err);
    if (st)
        goto done;
    s.prompt = p;
    st = infq_mem_new((size_t)c->hidden, sizeof(float), "hidden state", &p, err);
    if (st)
        goto done;
    s.hidden = p;
    st = infq_mem_new((size_t)c->vocab, sizeof(float), "logits", &p, err);
    if (st)
        goto done;
    s.logits = p;
    r.weight_bytes = infq_model_weight_bytes(m);
    r.kv_bytes_predicted = infq_model_kv_bytes(c, o->n_prompt + o->n_tokens);
    r.rss_before = infq_mem_rss_now();
    for (int64_t i = 0; !st && i < o->n_warmup + o->n_repeats; i++) {
        infq_request_record *rec = i < o->n_warmup ? &r.warmup[i] : &r.requests[i - o->n_warmup];
        infq_progress(log, i < o->n_warmup ? "warm-up" : "requests", (uint64_t)i,
                      (uint64_t)(o->n_warmup + o->n_repeats));
        if (infq_interrupted)
            st = infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld requests", (long long)i);
        else
            st = run_request(m, o, &s, &rng, rec, err);
        if (!st && i == 0)
            r.warmup_ttft_ms = (double)(rec->token_ns[0] - rec->due_ns) * 1e-6;
    }
    if (st)
        goto done;
    r.rss_peak = infq_mem_rss_peak();
    st = infq_roofline_measure(be, &r.roofline, err);
    if (!st)
        st = derive(m, &r, err);
done:
    infq_mem_free(s.prompt);
    infq_mem_free(s.hidden);
    infq_mem_free(s.logits);
    if (st)
        infq_bench_result_deinit(&r);
    else
        *out = r;
    return st;
}
