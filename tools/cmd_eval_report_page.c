/* infeval report: result files as a page, Markdown, JUnit XML or one JSON object. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/report/report.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"

#define NAME "infeval report"

typedef struct {
    opt_list outputs;
    const char *format, *items, *title;
    int64_t flips;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "output", 'o', OPT_LIST, "FILE", "written instead of standard output; its suffix decides what: .html, .md,\n"
      ".xml (JUnit), .json; may be repeated", AT(outputs), 0, 0 },
    { "format", 0, OPT_STR, "NAME", "html, md, xml or json, where no suffix tells (md)", AT(format), 0, 0 },
    { "items", 0, OPT_STR, "DIR", "folder of infeval --items, when it is not where the result says", AT(items), 0, 0 },
    { "title", 0, OPT_STR, "TEXT", "of the report", AT(title), 0, 0 },
    { "flips", 0, OPT_I64, "N", "changed items shown of each comparison (100)", AT(flips), 0, 1e6 },
};
const opt_spec cmd_eval_report_page_spec = {
    NAME, "[options] RESULT.json [RESULT.json...]", "Writes what was measured and decided for people and for machines.",
    "RESULT.json is what infeval, infeval gate, infbench or infq verify print with --json; figures of one model\n"
    "come together by its path. infeval's results hold the items that changed with their texts; for those of\n"
    "infeval gate the item files are read, if they are there. The HTML page needs nothing beside itself.",
    rows, sizeof(rows) / sizeof(rows[0]), 1, -1,
};

static infq_status write_one(const infq_report *r, const infq_report_format *f, const char *path, infq_err *err)
{
    infq_buf doc;
    infq_status st;

    infq_buf_init(&doc);
    st = f->write(r, &doc, err);
    if (!st)
        st = path ? infq_file_write_atomic(path, doc.data, doc.n, true, err) : cmd_print(&doc, err);
    infq_buf_deinit(&doc);
    return st;
}

/* Before anything is read: a suffix that tells no format is a mistake to hear of at once. */
static infq_status format_of(const options *o, const char *path, const infq_report_format **out, infq_err *err)
{
    *out = o->format ? infq_report_format_find(o->format) : path ? infq_report_format_of_path(path) : infq_report_format_find("md");
    if (*out)
        return 0;
    if (o->format)
        return infq_err_set(err, INFQ_E_USAGE, "--format %s: html, md, xml or json is wanted", o->format);
    return infq_err_set(err, INFQ_E_USAGE, "%s: the suffix is none of .html, .md, .xml, .json; say --format", path);
}

static infq_status run(const options *o, char **files, int n_files, infq_err *err)
{
    infq_report_options ro = infq_report_options_default();
    const infq_report_format *formats[OPT_LIST_MAX + 1];
    int n = o->outputs.n > 0 ? o->outputs.n : 1;
    infq_report *r = NULL;
    infq_status st;

    for (int i = 0; i < n; i++)
        INFQ_TRY(format_of(o, o->outputs.n > 0 ? o->outputs.v[i] : NULL, &formats[i], err));
    for (int i = 0; i < o->outputs.n; i++)
        for (int k = 0; k < n_files; k++)
            INFQ_TRY(cmd_keep_input(o->outputs.v[i], files[k], err));
    ro.items = o->items;
    ro.max_flips = o->flips;
    INFQ_TRY(infq_report_new(o->title, &r, err));
    st = 0;
    for (int i = 0; i < n_files && !st; i++)
        st = infq_report_add_file(r, files[i], err);
    if (!st)
        st = infq_report_finish(r, &ro, err);
    for (int i = 0; i < n && !st; i++)
        st = write_one(r, formats[i], o->outputs.n > 0 ? o->outputs.v[i] : NULL, err);
    infq_report_free(r);
    return st;
}

int cmd_eval_report_page(int argc, char **argv)
{
    options o = { .title = "Evaluation", .flips = infq_report_options_default().max_flips };
    infq_err err;
    int n_args;
    bool done;

    if (opt_parse(&cmd_eval_report_page_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(NAME, &err);
    if (done)
        return 0;
    return run(&o, argv, n_args, &err) ? cmd_fail(NAME, &err) : 0;
}
