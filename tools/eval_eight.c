#include "tools/eval_eight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/compress/quantize.h"
#include "lib/format/format.h"

/* The codec of the first matrix that is quantized; elem NONE: none is. */
static infq_status codec_of(const eval_model *m, infq_codec *out, infq_err *err)
{
    infq_reader *r = NULL;
    infq_arena *arena = NULL;
    infq_status st = infq_reader_open(m->ck, &r, err);

    *out = (infq_codec){.elem = INFQ_ELEM_NONE};
    if (!st)
        st = infq_arena_new((size_t)1 << 16, &arena, err);
    for (int64_t i = 0; !st && out->elem == INFQ_ELEM_NONE && i < infq_model_part_count(m->model); i++) {
        infq_model_part p = infq_model_part_get(m->model, i);
        infq_mark mark = infq_arena_mark(arena);
        infq_weight w;
        if (p.cols == 0)
            continue;
        st = infq_reader_read(r, p.module, arena, &w, err);
        if (!st && w.codec.scale != INFQ_ELEM_NONE)
            *out = w.codec;
        infq_arena_release(arena, mark);
    }
    infq_arena_free(arena);
    infq_reader_close(r);
    return st;
}

/* original at W8A16 as infq quantize stores it by default, in a new folder. */
static infq_status make(const char *original, const infq_log *log, eval_eight *e, infq_err *err)
{
    const char *tmp = getenv("TMPDIR");
    infq_plan_options po = infq_plan_options_default();
    infq_quantize_options qo = {.verify = false};
    infq_quantize_result *r = NULL;
    infq_checkpoint *ck = NULL;
    infq_plan *p = NULL;
    char out[sizeof(e->folder) + 16];
    infq_status st;

    if (snprintf(e->folder, sizeof(e->folder), "%s/infq-eight-XXXXXX", tmp && *tmp ? tmp : "/tmp") >= (int)sizeof(e->folder) || !mkdtemp(e->folder)) {
        e->folder[0] = '\0';
        return infq_err_set(err, INFQ_E_IO, "%.80s: no folder can be made there: %s", tmp && *tmp ? tmp : "/tmp", strerror(errno));
    }
    snprintf(out, sizeof(out), "%s/model", e->folder);
    po.scheme = infq_scheme_find("W8A16");
    po.out = out;
    st = infq_checkpoint_open(original, NULL, &ck, err);
    if (!st)
        st = infq_plan_make(ck, &po, &p, err);
    if (!st)
        st = infq_quantize_run(p, &qo, log, &r, err);
    infq_quantize_result_free(r);
    infq_plan_free(p);
    infq_checkpoint_close(ck);
    return st;
}

static infq_status check(eval_eight *e, const char *path, infq_err *err)
{
    infq_codec c;

    INFQ_TRY(codec_of(&e->m, &c, err));
    if ((c.elem != INFQ_ELEM_U8 && c.elem != INFQ_ELEM_I8) || c.act != INFQ_ACT_NONE)
        return infq_err_set(err, INFQ_E_USAGE, "--eight %.80s: a model with weights of 8 bits is wanted (infq quantize --bits 8)", path);
    if (c.group_cols > 0)
        snprintf(e->type, sizeof(e->type), "W8A16:%d", (int)c.group_cols);
    else
        snprintf(e->type, sizeof(e->type), "W8A16:channel");
    return 0;
}

infq_status eval_eight_open(const char *path, const char *original, const eval_model *compressed, infq_backend *be, const infq_log *log, eval_eight *out,
                            infq_err *err)
{
    infq_codec now;
    char made[sizeof(out->folder) + 16];
    infq_status st;

    memset(out, 0, sizeof(*out));
    if (path) {
        st = eval_model_open(path, be, log, false, &out->m, err);
        return st ? st : check(out, path, err);
    }
    INFQ_TRY(codec_of(compressed, &now, err));
    if (now.elem == INFQ_ELEM_NONE || infq_elem_bits(now.elem) >= 8)
        return 0;
    st = make(original, log, out, err);
    snprintf(made, sizeof(made), "%s/model", out->folder);
    if (!st)
        st = eval_model_open(made, be, log, false, &out->m, err);
    if (!st)
        st = check(out, made, err);
    if (!st || st == INFQ_E_INTERRUPTED)
        return st;
    infq_warn(log, "exceptions have no price at 8 bits, because the original could not be stored so: %s", err->msg);
    eval_eight_close(out);
    return 0;
}

void eval_eight_close(eval_eight *e)
{
    infq_err ignored;

    if (e->m.ck)
        eval_model_close(&e->m);
    if (e->folder[0])
        infq_dir_remove(e->folder, &ignored);
    memset(e, 0, sizeof(*e));
}
