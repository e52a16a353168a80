#include <string.h>

#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/compress/convert.h"
#include "tools/cmd.h"
#include "tools/commands.h"

#define NAME "infq convert"

typedef struct {
    const char *out, *dtype;
    uint64_t shard_bytes;
    int64_t threads;
    bool dequantize, force, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "output", 'o', OPT_STR, "OUT", "folder, or one file when the name ends in .safetensors (required)", AT(out), 0, 0 },
    { "dtype", 0, OPT_STR, "TYPE", "f32, bf16, f16, f8_e4m3 or f8_e5m2 for every float tensor", AT(dtype), 0, 0 },
    { "dequantize", 0, OPT_FLAG, NULL, "store quantized weights densely (BF16 unless --dtype says else)", AT(dequantize), 0, 0 },
    { "shard-size", 0, OPT_SIZE, "SIZE", "tensor bytes of a shard at most (5GB)", AT(shard_bytes), 0, 0 },
    { "force", 'f', OPT_FLAG, NULL, "replace OUT if it is there", AT(force), 0, 0 },
    { "threads", 0, OPT_I64, "N", "processors to use (all)", AT(threads), 1, 4096 },
    { "json", 0, OPT_FLAG, NULL, "the report as one JSON object", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
const opt_spec cmd_convert_spec = {
    NAME, "[options] -o OUT IN", "Writes a model in another container or element type.",
    "IN is a model folder, a .safetensors file or a .gguf file (llama architecture). Rounding is to nearest,\n"
    "ties to even; a finite value that the type cannot hold is an error, except that FP8 saturates.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, 1,
};

static void report(const options *o, const char *in, const infq_convert_report *r, infq_buf *to)
{
    char a[32], b[32];

    if (o->json) {
        infq_jw w = infq_jw_over(to, 0);
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "schema", "infq.convert.v1");
        infq_jw_key_str(&w, "input", in);
        infq_jw_key_str(&w, "output", o->out);
        infq_jw_key_i64(&w, "tensors", r->n_tensors);
        infq_jw_key_i64(&w, "cast", r->n_cast);
        infq_jw_key_i64(&w, "decoded", r->n_decoded);
        infq_jw_key_i64(&w, "shards", (int64_t)r->n_shards);
        infq_jw_key_i64(&w, "bytes_in", (int64_t)r->bytes_in);
        infq_jw_key_i64(&w, "bytes_out", (int64_t)r->bytes_out);
        infq_jw_end_obj(&w);
        infq_buf_char(to, '\n');
        return;
    }
    infq_buf_fmt(to, "%s: %lld tensors, %lld cast, %lld decoded, %zu file%s, %s from %s\n", o->out, (long long)r->n_tensors,
                 (long long)r->n_cast, (long long)r->n_decoded, r->n_shards, r->n_shards == 1 ? "" : "s",
                 infq_format_bytes((double)r->bytes_out, a, sizeof(a)), infq_format_bytes((double)r->bytes_in, b, sizeof(b)));
}

static infq_status convert(const options *o, const char *in, const infq_log *log, infq_convert_report *r, infq_err *err)
{
    infq_convert_options co;
    infq_checkpoint *ck = NULL;
    infq_status st;

    memset(&co, 0, sizeof(co));
    co.out_path = o->out;
    co.dequantize = o->dequantize;
    co.force = o->force;
    co.shard_bytes = o->shard_bytes;
    if (!o->out)
        return infq_err_set(err, INFQ_E_USAGE, "-o OUT is missing");
    if (o->dtype && !infq_convert_dtype(o->dtype, &co.dtype))
        return infq_err_set(err, INFQ_E_USAGE, "--dtype %s: f32, bf16, f16, f8_e4m3 or f8_e5m2 is wanted", o->dtype);
    co.cast = o->dtype != NULL;
    if (infq_str_ends(in, ".gguf"))
        return infq_convert_gguf(in, &co, log, r, err);
    INFQ_TRY(infq_checkpoint_open(in, log, &ck, err));
    st = infq_convert_run(ck, &co, log, r, err);
    infq_checkpoint_close(ck);
    return st;
}

int cmd_convert(int argc, char **argv)
{
    options o;
    infq_convert_report r;
    cmd_sink sink;
    infq_log log;
    infq_buf doc;
    infq_err err;
    infq_status st;
    int n_args;
    bool done;

    memset(&o, 0, sizeof(o));
    if (opt_parse(&cmd_convert_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    infq_par_threads_set((int)o.threads);
    log = cmd_log(&sink, NAME, o.quiet);
    st = convert(&o, argv[0], &log, &r, &err);
    cmd_log_end(&sink);
    if (st)
        return cmd_fail(NAME, &err);
    infq_buf_init(&doc);
    report(&o, argv[0], &r, &doc);
    st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    return st ? cmd_fail(NAME, &err) : 0;
}
