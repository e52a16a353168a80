/* Models as infeval's commands open them. */
#include <stdio.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/file.h"
#include "tools/cmd_eval.h"

void eval_model_close(eval_model *l)
{
    infq_model_close(l->model);
    infq_tokenizer_free(l->tok);
    infq_checkpoint_close(l->ck);
    memset(l, 0, sizeof(*l));
}

infq_status eval_model_open(const char *path, infq_backend *be, const infq_log *log, bool digest, eval_model *out, infq_err *err)
{
    infq_model_options mo = infq_model_options_default();
    infq_status st;

    memset(out, 0, sizeof(*out));
    st = infq_checkpoint_open(path, log, &out->ck, err);
    if (!st)
        st = infq_model_open(out->ck, be, &mo, &out->model, err);
    if (!st)
        st = infq_tokenizer_open(path, &out->tok, err);
    if (!st && digest)
        st = infq_checkpoint_digest(out->ck, log, out->digest, err);
    if (st)
        eval_model_close(out);
    return st;
}

void eval_model_name(const char *path, char *out, size_t cap)
{
    snprintf(out, cap, "%s", infq_path_base(path));
    for (char *end = out + strlen(out); end > out && end[-1] == '/'; end--)
        end[-1] = '\0';
}

void eval_settings(const infq_backend *be, const char *bos, char *out, size_t cap)
{
    snprintf(out, cap, "infq=%s backend=%s cpu=%s bos=%s", INFQ_VERSION, be->ops.name, infq_cpu_level_name(infq_cpu_level_get()), bos);
}

infq_status eval_bos_find(const char *name, infq_bos *out, infq_err *err)
{
    static const char *const names[] = { "model", "always", "never" };

    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (infq_bos)i;
            return 0;
        }
    }
    return infq_err_set(err, INFQ_E_USAGE, "--bos %s: model, always or never is wanted", name);
}
