#include "tools/opt.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"

#define OPT_ROWS_MAX 96

static const opt_row *find_long(const opt_spec *spec, const char *name, size_t n)
{
    for (int i = 0; i < spec->n_rows; i++)
        if (spec->rows[i].kind != OPT_NEED && strlen(spec->rows[i].name) == n && strncmp(spec->rows[i].name, name, n) == 0)
            return &spec->rows[i];
    return NULL;
}

static const opt_row *find_short(const opt_spec *spec, char letter)
{
    for (int i = 0; i < spec->n_rows; i++)
        if (spec->rows[i].letter == letter)
            return &spec->rows[i];
    return NULL;
}

static infq_status store(const opt_row *row, const char *value, void *options, infq_err *err)
{
    char *at = (char *)options + row->offset;
    bool limited = row->lo < row->hi;
    opt_list *list;

    switch (row->kind) {
    case OPT_FLAG:
        *(bool *)at = true;
        break;
    case OPT_STR:
        *(const char **)at = value;
        break;
    case OPT_I64:
        if (!infq_parse_i64(value, limited ? (int64_t)row->lo : INT64_MIN, limited ? (int64_t)row->hi : INT64_MAX,
                            (int64_t *)at)) {
            if (limited)
                return infq_err_set(err, INFQ_E_USAGE, "--%s %s: a whole number from %.0f to %.0f is wanted", row->name,
                                    value, row->lo, row->hi);
            return infq_err_set(err, INFQ_E_USAGE, "--%s %s: a whole number is wanted", row->name, value);
        }
        break;
    case OPT_F64:
        if (!infq_parse_f64(value, limited ? row->lo : -1e308, limited ? row->hi : 1e308, (double *)at)) {
            if (limited)
                return infq_err_set(err, INFQ_E_USAGE, "--%s %s: a number from %g to %g is wanted", row->name, value,
                                    row->lo, row->hi);
            return infq_err_set(err, INFQ_E_USAGE, "--%s %s: a number is wanted", row->name, value);
        }
        break;
    case OPT_SIZE:
        if (!infq_parse_size(value, (uint64_t *)at) || *(uint64_t *)at == 0)
            return infq_err_set(err, INFQ_E_USAGE, "--%s %s: a size such as 500MB or 2GiB is wanted", row->name, value);
        break;
    case OPT_LIST:
        list = (opt_list *)at;
        if (list->n == OPT_LIST_MAX)
            return infq_err_set(err, INFQ_E_USAGE, "--%s is given more than %d times", row->name, OPT_LIST_MAX);
        list->v[list->n++] = value;
        break;
    case OPT_NEED:
        INFQ_BUG_ON(true); // is found by no name
    }
    return INFQ_E_OK;
}

// One argument that begins with a dash; *i moves past a value, given[] marks the row.
static infq_status one_option(const opt_spec *spec, int argc, char **argv, int *i, void *options, bool *given, infq_err *err)
{
    const char *arg = argv[*i], *value = NULL;
    const opt_row *row;

    if (arg[1] == '-') {
        const char *eq = strchr(arg, '=');
        row = find_long(spec, arg + 2, eq ? (size_t)(eq - arg - 2) : strlen(arg + 2));
        if (eq)
            value = eq + 1;
    } else {
        row = find_short(spec, arg[1]);
        if (arg[2])
            value = arg + 2;
    }
    if (!row)
        return infq_err_set(err, INFQ_E_USAGE, "unknown option %s (see %s --help)", arg, spec->name);
    if (row->kind == OPT_FLAG) {
        if (value)
            return infq_err_set(err, INFQ_E_USAGE, "--%s takes no value", row->name);
    } else if (!value) {
        if (*i + 1 >= argc)
            return infq_err_set(err, INFQ_E_USAGE, "--%s needs a value", row->name);
        value = argv[++*i];
    }
    given[row - spec->rows] = true;
    return store(row, value, options, err);
}

static bool is_given(const opt_spec *spec, const bool *given, const char *name, size_t n)
{
    const opt_row *row = find_long(spec, name, n);

    INFQ_BUG_ON(!row); // a rule of a table names an option of that table
    return given[row - spec->rows];
}

static infq_status check_needs(const opt_spec *spec, const bool *given, infq_err *err)
{
    for (int i = 0; i < spec->n_rows; i++) {
        const opt_row *r = &spec->rows[i];
        char list[120] = "";
        bool met = false;
        if (r->kind != OPT_NEED || !is_given(spec, given, r->name, strlen(r->name)))
            continue;
        for (const char *p = r->arg; *p && !met; p += strcspn(p, ","), p += *p == ',') {
            size_t n = strcspn(p, ","), used = strlen(list);
            met = is_given(spec, given, p, n);
            snprintf(list + used, sizeof(list) - used, "%s--%.*s", !used ? "" : p[n] ? ", " : " or ", (int)n, p);
        }
        if (!met)
            return infq_err_set(err, INFQ_E_USAGE, "--%s does nothing without %s", r->name, list);
    }
    return INFQ_E_OK;
}

infq_status opt_parse(const opt_spec *spec, int argc, char **argv, void *options, int *n_args, bool *done, infq_err *err)
{
    int n = 0;
    bool only_args = false, given[OPT_ROWS_MAX] = { false };

    INFQ_BUG_ON(spec->n_rows > OPT_ROWS_MAX);
    *done = false;
    for (int i = 1; i < argc; i++) {
        if (only_args || argv[i][0] != '-' || argv[i][1] == '\0')
            argv[n++] = argv[i];
        else if (strcmp(argv[i], "--") == 0)
            only_args = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            opt_help(spec);
            *done = true;
            return INFQ_E_OK;
        } else
            INFQ_TRY(one_option(spec, argc, argv, &i, options, given, err));
    }
    *n_args = n;
    INFQ_TRY(check_needs(spec, given, err));
    if (n < spec->min_args)
        return infq_err_set(err, INFQ_E_USAGE, "usage: %s %s", spec->name, spec->usage);
    if (spec->max_args >= 0 && n > spec->max_args)
        return infq_err_set(err, INFQ_E_USAGE, "unexpected argument %s (usage: %s %s)", argv[spec->max_args], spec->name,
                            spec->usage);
    return INFQ_E_OK;
}

void opt_help(const opt_spec *spec)
{
    printf("usage: %s %s\n\n%s\n", spec->name, spec->usage, spec->summary);
    if (spec->n_rows)
        printf("\noptions:\n");
    for (int i = 0; i < spec->n_rows; i++) {
        const opt_row *r = &spec->rows[i];
        char left[64];
        const char *line = r->help;

        if (r->kind == OPT_NEED)
            continue;
        snprintf(left, sizeof(left), "  %c%c%s--%s%s%s", r->letter ? '-' : ' ', r->letter ? r->letter : ' ',
                 r->letter ? ", " : "  ", r->name, r->arg ? " " : "", r->arg ? r->arg : "");
        printf("%-30s", left);
        while (*line) {
            int n = (int)strcspn(line, "\n");
            printf(line == r->help ? "%s%.*s\n" : "%-30s%.*s\n", line == r->help ? "" : " ", n, line);
            line += n;
            if (*line)
                line++;
        }
    }
    printf("      --help                  this text\n");
    if (spec->details)
        printf("\n%s\n", spec->details);
}
