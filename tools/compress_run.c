#include "tools/compress_run.h"

#include "lib/base/str.h"
#include "tools/calib_data.h"
#include "tools/cmd.h"

void compress_needs_text(const infq_plan *p, infq_buf *to)
{
    char a[32], b[32], c[32];

    infq_buf_fmt(to, "  memory %s, disk %s of %s free, about %.1f s on %d threads\n",
                 infq_format_bytes((double)p->peak_bytes, a, sizeof(a)),
                 infq_format_bytes((double)p->disk_needed, b, sizeof(b)),
                 infq_format_bytes((double)p->disk_free, c, sizeof(c)), p->seconds, p->threads);
    for (size_t i = 0; i < p->findings.n; i++)
        infq_buf_fmt(to, "  note: %s\n", p->findings.v[i].text);
}

void compress_needs_json(const infq_plan *p, infq_jw *w)
{
    infq_jw_key_i64(w, "peak_memory_bytes", (int64_t)p->peak_bytes);
    infq_jw_key_i64(w, "disk_needed_bytes", (int64_t)p->disk_needed);
    infq_jw_key_i64(w, "disk_free_bytes", (int64_t)p->disk_free);
    infq_jw_key_f64(w, "seconds", p->seconds);
    infq_jw_key_i64(w, "threads", p->threads);
    infq_jw_key(w, "notes");
    infq_jw_arr(w);
    for (size_t i = 0; i < p->findings.n; i++)
        infq_jw_str(w, p->findings.v[i].text);
    infq_jw_end_arr(w);
}

// r NULL: the plan.
static infq_status print(const compress_command *c, const infq_plan *p, const infq_quantize_result *r,
                         infq_err *err)
{
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    if (c->json) {
        infq_jw w = infq_jw_over(&text, 0);
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "schema", c->schema);
        infq_jw_key_str(&w, "input", infq_checkpoint_path(p->ck));
        infq_jw_key_str(&w, "output", p->out);
        c->plan_json(p, &w);
        if (r)
            c->report_json(p, r, &w);
        infq_jw_end_obj(&w);
        infq_buf_char(&text, '\n');
    } else if (r) {
        c->report_text(p, r, &text);
    } else {
        c->plan_text(p, &text);
    }
    st = cmd_print(&text, err);
    infq_buf_deinit(&text);
    return st;
}

static infq_status load_calib(const compress_command *c, const infq_checkpoint *ck,
                              const infq_log *log, infq_calib *out, infq_err *err)
{
    int64_t window = c->calib_window < c->calib_tokens ? c->calib_window : c->calib_tokens;

    return calib_data_load(ck, c->calib, window, c->calib_tokens / window, c->seed, log, out, err);
}

static infq_status carry_out(const compress_command *c, const infq_plan *p, cmd_sink *sink,
                             const infq_log *log, bool *passed, infq_err *err)
{
    infq_quantize_options qo = {.force = c->force, .verify = !c->no_verify};
    infq_quantize_result *r = NULL;
    infq_status st;

    if (!c->force && !c->dry_run && infq_path_exists(p->out))
        return infq_err_set(err, INFQ_E_EXISTS, "%s is there already (--force replaces it)", p->out);
    // The plan is shown before the work; with --json it is part of the report.
    if (c->dry_run || (!c->json && !c->quiet))
        INFQ_TRY(print(c, p, NULL, err));
    if (c->dry_run)
        return INFQ_E_OK;
    st = infq_quantize_run(p, &qo, log, &r, err);
    cmd_log_end(sink);
    if (!st) {
        *passed = r->published;
        st = print(c, p, r, err);
    }
    infq_quantize_result_free(r);
    return st;
}

infq_status compress_run(const compress_command *c, const char *path, infq_plan_options *po,
                         bool *passed, infq_err *err)
{
    cmd_sink sink;
    infq_log log = cmd_log(&sink, c->name, c->quiet);
    infq_checkpoint *ck = NULL;
    infq_calib calib = {0};
    infq_plan *p = NULL;
    infq_status st = infq_checkpoint_open(path, &log, &ck, err);

    po->verified = !c->no_verify;
    if (!st && c->calib) {
        st = load_calib(c, ck, &log, &calib, err);
        po->calib = &calib;
    }
    if (!st)
        st = infq_plan_make(ck, po, &p, err);
    if (!st)
        st = carry_out(c, p, &sink, &log, passed, err);
    po->calib = NULL;
    infq_plan_free(p);
    infq_calib_free(&calib);
    infq_checkpoint_close(ck);
    return st;
}
