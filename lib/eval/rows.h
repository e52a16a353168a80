/* Data files as rows of named fields, whatever the file's layout. docs/format/task.md. */
#ifndef INFQ_EVAL_ROWS_H
#define INFQ_EVAL_ROWS_H

#include "lib/base/buf.h"

typedef enum {
    INFQ_ROWS_JSONL, /* an object a line, blank lines passed over */
    INFQ_ROWS_JSON,  /* a list of objects, the whole document or one of its members */
    INFQ_ROWS_CSV,   /* RFC 4180: quotes, doubled quotes, line breaks inside quotes; a byte order mark is passed over */
    INFQ_ROWS_TSV,   /* tab between fields, nothing quoted */
    INFQ_ROWS_SIX    /* six lines an item, as llama.cpp reads HellaSwag: ctx, label, four endings */
} infq_rows_layout;
extern const char *const infq_rows_names[]; /* by layout, NULL at the end */
/* By a name's end, ".gz" apart: .csv, .tsv, .json, .txt (six lines); JSONL for every other. */
infq_rows_layout infq_rows_layout_of(const char *path);

typedef struct {
    infq_rows_layout layout;
    bool header;         /* CSV, TSV: the first row holds names; without, fields are called c0, c1, ... */
    const char *member;  /* JSON: of the document, NULL: the document itself */
} infq_rows_options;

typedef struct infq_rows infq_rows;
/* text is borrowed until free. FORMAT when a JSON document is not such a list. */
infq_status infq_rows_open(const char *text, size_t n, const infq_rows_options *o, infq_rows **out, infq_err *err);
void infq_rows_free(infq_rows *r);
/* Next row as the text of a JSON object, valid until the next call; *json = NULL at the end. where: "line 7" or "entry 7", also set when the row
 * is refused. FORMAT names the rule; the caller adds file and place. */
infq_status infq_rows_next(infq_rows *r, const char **json, size_t *n, char where[32], infq_err *err);
/* JSON with a member: the document's other members, as an object. "{}" otherwise. */
const char *infq_rows_document(const infq_rows *r);

#endif
