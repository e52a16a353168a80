#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/bench/bench.h"
#include "tools/cmd.h"
#include "tools/commands.h"

#define NAME "infbench"

typedef struct {
    int64_t n_prompt, n_tokens, warmup, repeats, threads, seed;
    opt_list targets;
    const char *backend;
    bool json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "target", 0, OPT_LIST, "TEXT", "for example \"p90 ttft < 200ms\" (ttft, itl, tpot, e2e); may be repeated;\n"
      "decided met, not met or undecided at 95 % confidence", AT(targets), 0, 0 },
    { "prompt-tokens", 0, OPT_I64, "N", "tokens of each prompt (128)", AT(n_prompt), 1, 1e6 },
    { "max-tokens", 0, OPT_I64, "N", "tokens to generate for each (32)", AT(n_tokens), 1, 1e6 },
    { "warmup", 0, OPT_I64, "N", "requests that are not counted (3)", AT(warmup), 0, 1e4 },
    { "repeats", 0, OPT_I64, "N", "requests that are counted (30)", AT(repeats), 1, 1e5 },
    { "seed", 0, OPT_I64, "N", "of the random prompts (1)", AT(seed), 0, 9e15 },
    { "backend", 0, OPT_STR, "NAME", "auto, cpu, ref, cuda (auto)", AT(backend), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all)", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
const opt_spec cmd_bench_spec = {
    NAME, "[options] MODEL", "Measures time to first token, inter-token time, throughput and memory of a model.",
    "One request runs at a time; prompts are random tokens, different in every request. Times count\n"
    "from the moment a request was due. Percentiles carry 95 % intervals. Exit code: 0 measured and all\n"
    "targets met, 1 a target is not met, 6 a target is undecided.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

typedef struct {
    const char *path;
    double open_ms, prepare_ms;
    infq_bench_result r;
    infq_target targets[OPT_LIST_MAX];
    infq_target_result decided[OPT_LIST_MAX];
    int n_targets;
} outcome;

static void write_latency(infq_jw *w, const infq_latency_summary *s)
{
    static const char *const keys[] = { "p50", "p90", "p95", "p99" };

    infq_jw_obj(w);
    infq_jw_key_i64(w, "n", s->n);
    infq_jw_key_f64(w, "mean", s->mean_ms);
    for (int q = 0; q < 4; q++) {
        infq_jw_key_f64(w, keys[q], s->p_ms[q]);
    }
    infq_jw_key(w, "interval95");
    infq_jw_obj(w);
    for (int q = 0; q < 4; q++) {
        infq_jw_key(w, keys[q]);
        infq_jw_arr(w);
        infq_jw_f64(w, s->lo_ms[q]);
        infq_jw_f64(w, s->hi_ms[q]);
        infq_jw_end_arr(w);
    }
    infq_jw_end_obj(w);
    infq_jw_end_obj(w);
}

static void write_json(const outcome *o, infq_buf *to)
{
    const infq_bench_result *r = &o->r;
    infq_jw w = infq_jw_over(to, 0);
    char cpu[128];

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.bench.v1");
    infq_jw_key_str(&w, "version", INFQ_VERSION);
    infq_jw_key_str(&w, "model", o->path);
    infq_jw_key_str(&w, "cpu", infq_cpu_model(cpu, sizeof(cpu)));
    infq_jw_key_str(&w, "cpu_level", infq_cpu_level_name(infq_cpu_level_get()));
    infq_jw_key_i64(&w, "threads", infq_par_threads());
    infq_jw_key_i64(&w, "prompt_tokens", r->options.n_prompt);
    infq_jw_key_i64(&w, "max_tokens", r->options.n_tokens);
    infq_jw_key_i64(&w, "warmup", r->options.n_warmup);
    infq_jw_key_i64(&w, "repeats", r->options.n_repeats);
    infq_jw_key_i64(&w, "seed", (int64_t)r->options.seed);
    infq_jw_key(&w, "latency_ms");
    infq_jw_obj(&w);
    for (int m = 0; m < INFQ_METRIC_COUNT; m++) {
        infq_jw_key(&w, infq_metric_name((infq_metric)m));
        write_latency(&w, &r->latency[m]);
    }
    infq_jw_end_obj(&w);
    infq_jw_key_f64(&w, "cold_start_ms", o->open_ms + o->prepare_ms + r->warmup_ttft_ms);
    infq_jw_key_f64(&w, "open_ms", o->open_ms);
    infq_jw_key_f64(&w, "prepare_ms", o->prepare_ms);
    infq_jw_key_f64(&w, "first_request_ttft_ms", r->warmup_ttft_ms);
    infq_jw_key_f64(&w, "prefill_tokens_per_s", r->prefill_tokens_per_s);
    infq_jw_key_f64(&w, "decode_tokens_per_s", r->decode_tokens_per_s);
    infq_jw_key_f64(&w, "read_bandwidth_bytes_per_s", r->roofline.read_bytes_per_s);
    infq_jw_key_f64(&w, "peak_flop_per_s", r->roofline.flop_per_s);
    infq_jw_key_f64(&w, "decode_bytes_per_token", r->decode_bytes);
    infq_jw_key_f64(&w, "share_of_bandwidth", r->share_of_bandwidth);
    infq_jw_key_f64(&w, "prefill_flop_per_s", r->prefill_flop_per_s);
    infq_jw_key_f64(&w, "share_of_flops", r->share_of_flops);
    infq_jw_key_i64(&w, "weight_bytes", (int64_t)r->weight_bytes);
    infq_jw_key_i64(&w, "kv_bytes_predicted", (int64_t)r->kv_bytes_predicted);
    infq_jw_key_i64(&w, "rss_before_bytes", (int64_t)r->rss_before);
    infq_jw_key_i64(&w, "rss_peak_bytes", (int64_t)r->rss_peak);
    infq_jw_key(&w, "targets");
    infq_jw_arr(&w);
    for (int i = 0; i < o->n_targets; i++) {
        const infq_target_result *d = &o->decided[i];
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "target", o->targets[i].text);
        infq_jw_key_str(&w, "verdict", infq_target_verdict_name(d->verdict));
        infq_jw_key_f64(&w, "value_ms", d->value_ms);
        infq_jw_key_f64(&w, "lo_ms", d->lo_ms);
        infq_jw_key_f64(&w, "hi_ms", d->hi_ms);
        infq_jw_key_f64(&w, "share_over", d->share_over);
        infq_jw_key_f64(&w, "share_over_lo", d->share_lo);
        infq_jw_key_f64(&w, "share_over_hi", d->share_hi);
        infq_jw_key_i64(&w, "requests", d->n_requests);
        infq_jw_key_i64(&w, "requests_needed", d->n_needed);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
}

static void write_text(const outcome *o, infq_buf *to)
{
    static const char *const names[] = { "TTFT", "ITL", "TPOT", "E2E" };
    const infq_bench_result *r = &o->r;
    char a[32], b[32], c[32], d[32], cpu[128];

    infq_buf_fmt(to, "%s, %s (%s), %d threads, %lld prompt and %lld new tokens, %lld requests after %lld of warm-up\n\n",
                 o->path, infq_cpu_model(cpu, sizeof(cpu)), infq_cpu_level_name(infq_cpu_level_get()), infq_par_threads(),
                 (long long)r->options.n_prompt, (long long)r->options.n_tokens, (long long)r->options.n_repeats,
                 (long long)r->options.n_warmup);
    infq_buf_fmt(to, "%-6s %10s %10s %10s %10s   %s\n", "ms", "P50", "P90", "P95", "P99", "95 % interval of P90");
    for (int m = 0; m < INFQ_METRIC_COUNT; m++) {
        const infq_latency_summary *s = &r->latency[m];
        if (!s->n)
            continue;
        infq_buf_fmt(to, "%-6s %10.2f %10.2f %10.2f %10.2f   ", names[m], s->p_ms[0], s->p_ms[1], s->p_ms[2],
                     s->p_ms[3]);
        if (isfinite(s->hi_ms[1]))
            infq_buf_fmt(to, "%.2f to %.2f\n", s->lo_ms[1], s->hi_ms[1]);
        else
            infq_buf_fmt(to, "%.2f or more (too few requests for an upper end)\n", s->lo_ms[1]);
    }
    infq_buf_fmt(to, "\nprefill %.0f tokens/s, %.1f GFLOP/s, %.0f %% of the %.0f GFLOP/s measured for F32\n",
                 r->prefill_tokens_per_s, r->prefill_flop_per_s * 1e-9, 100 * r->share_of_flops,
                 r->roofline.flop_per_s * 1e-9);
    if (r->options.n_tokens > 1)
        infq_buf_fmt(to, "decode %.1f tokens/s, reads %s a token, %.1f GB/s, %.0f %% of the measured %.1f GB/s\n",
                     r->decode_tokens_per_s, infq_format_bytes(r->decode_bytes, a, sizeof(a)),
                     r->decode_bytes_per_s * 1e-9, 100 * r->share_of_bandwidth, r->roofline.read_bytes_per_s * 1e-9);
    infq_buf_fmt(to, "memory: weights %s, cache %s (predicted, one sequence), process %s before and %s at its peak\n",
                 infq_format_bytes((double)r->weight_bytes, a, sizeof(a)),
                 infq_format_bytes((double)r->kv_bytes_predicted, b, sizeof(b)),
                 infq_format_bytes((double)r->rss_before, c, sizeof(c)),
                 infq_format_bytes((double)r->rss_peak, d, sizeof(d)));
    infq_buf_fmt(to, "cold start %.0f ms: open %.0f, prepare %.0f, first request's TTFT %.0f\n",
                 o->open_ms + o->prepare_ms + r->warmup_ttft_ms, o->open_ms, o->prepare_ms, r->warmup_ttft_ms);
    for (int i = 0; i < o->n_targets; i++) {
        const infq_target_result *t = &o->decided[i];
        infq_buf_fmt(to, "target %s: %s (measured %.2f ms; %.1f %% of values at or over the limit, at most %.1f %%)",
                     o->targets[i].text, infq_target_verdict_name(t->verdict), t->value_ms, 100 * t->share_over,
                     100 * t->share_hi);
        if (t->verdict == INFQ_TARGET_UNDECIDED)
            infq_buf_fmt(to, "; %lld requests could decide", (long long)t->n_needed);
        infq_buf_char(to, '\n');
    }
}

static infq_status measure(const options *o, const infq_log *log, outcome *out, infq_err *err)
{
    infq_bench_options bo = infq_bench_options_default();
    infq_model_options mo = infq_model_options_default();
    infq_checkpoint *ck = NULL;
    infq_backend *be = NULL;
    infq_model *m = NULL;
    infq_status st;
    int64_t t0 = infq_time_ns(), t1;

    bo.n_prompt = o->n_prompt;
    bo.n_tokens = o->n_tokens;
    bo.n_warmup = o->warmup;
    bo.n_repeats = o->repeats;
    bo.seed = (uint64_t)o->seed;
    st = infq_checkpoint_open(out->path, log, &ck, err);
    if (st)
        goto done;
    out->open_ms = (double)(infq_time_ns() - t0) * 1e-6;
    st = infq_backend_open(o->backend, &be, err);
    if (st)
        goto done;
    t1 = infq_time_ns();
    st = infq_model_open(ck, be, &mo, &m, err);
    if (st)
        goto done;
    out->prepare_ms = (double)(infq_time_ns() - t1) * 1e-6;
    st = infq_bench_run(m, be, &bo, log, &out->r, err);
    for (int i = 0; !st && i < out->n_targets; i++)
        st = infq_target_decide(&out->targets[i], out->r.requests, out->r.options.n_repeats, &out->decided[i], err);
done:
    infq_model_close(m);
    infq_backend_close(be);
    infq_checkpoint_close(ck);
    return st;
}

int cmd_bench(int argc, char **argv)
{
    options o = { 128, 32, 3, 30, 0, 1, { { NULL }, 0 }, "auto", false, false };
    outcome out;
    cmd_sink sink;
    infq_log log;
    infq_buf doc;
    infq_err err;
    infq_status st;
    int n_args, code = 0;
    bool done;

    if (opt_parse(&cmd_bench_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    memset(&out, 0, sizeof(out));
    out.path = argv[0];
    for (; out.n_targets < o.targets.n; out.n_targets++)
        if (infq_target_parse(o.targets.v[out.n_targets], &out.targets[out.n_targets], &err))
            return cmd_fail(NAME, &err);
    infq_par_threads_set((int)o.threads);
    log = cmd_log(&sink, NAME, o.quiet);
    st = measure(&o, &log, &out, &err);
    cmd_log_end(&sink);
    infq_buf_init(&doc);
    if (!st) {
        if (o.json)
            write_json(&out, &doc);
        else
            write_text(&out, &doc);
        st = cmd_print(&doc, &err);
    }
    for (int i = 0; !st && i < out.n_targets; i++) {
        if (out.decided[i].verdict == INFQ_TARGET_NOT_MET)
            code = 1;
        else if (out.decided[i].verdict == INFQ_TARGET_UNDECIDED && code == 0)
            code = 6;
    }
    infq_buf_deinit(&doc);
    infq_bench_result_deinit(&out.r);
    return st ? cmd_fail(NAME, &err) : code;
}
