/* Texts for perplexity and KL divergence, and the text preparation that published scores depend on (specs 1.3, 6.2). */
#ifndef INFQ_EVAL_CORPUS_H
#define INFQ_EVAL_CORPUS_H

#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"

/* Whole file, plain or gzip (told by its first bytes); at most max_bytes after unpacking. Appends to out. */
infq_status infq_corpus_read(const char *path, size_t max_bytes, infq_buf *out, infq_err *err);
/* The same of bytes in memory. */
infq_status infq_corpus_unpack(const void *data, size_t n, size_t max_bytes, infq_buf *out, infq_err *err);

/* HellaSwag's cleaning: trim, " [title]" becomes ". ", bracketed parts go, two blanks become one (one pass). Appends. */
void infq_clean_hellaswag(const char *s, size_t n, infq_buf *out);
/* WikiText back to ordinary typography, in the order of specs 6.2. Appends. */
infq_status infq_detokenize_wikitext(const char *s, size_t n, infq_buf *out, infq_err *err);

/* How the bytes of a file become documents. */
typedef enum {
    INFQ_CORPUS_PLAIN,    /* the whole file is one document; JSON Lines with "text" give one each */
    INFQ_CORPUS_WIKI_RAW, /* WikiText, the raw file */
    INFQ_CORPUS_WIKI_ROWS,/* its lines joined by blank lines, as a published data set joins them */
    INFQ_CORPUS_WIKI_PAGES/* one document a page, detokenised; words and bytes counted before */
} infq_corpus_form;

typedef struct {
    const char *text;
    size_t n;
    int64_t words, bytes; /* of the original text */
} infq_corpus_doc;

typedef struct infq_corpus infq_corpus;
/* join: JSON Lines rows are joined by blank lines into one document (perplexity of one text). max_docs 0: all. */
infq_status infq_corpus_open(const char *path, infq_corpus_form form, bool join, int64_t max_docs, infq_corpus **out,
                             infq_err *err);
/* Every n_lines lines that are not blank, joined by newlines, are a document (the last may have fewer). */
infq_status infq_corpus_open_lines(const char *path, int64_t n_lines, int64_t max_docs, infq_corpus **out, infq_err *err);
void infq_corpus_free(infq_corpus *c);
size_t infq_corpus_count(const infq_corpus *c);
const infq_corpus_doc *infq_corpus_get(const infq_corpus *c, size_t i);

#endif
