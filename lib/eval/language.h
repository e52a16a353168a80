/* The language of a text, told by script, by letters that only one language of a script has, and by frequent short words.
 * Deterministic; meant for texts of a sentence or more in one of the languages of the table in language.c. */
#ifndef INFQ_EVAL_LANGUAGE_H
#define INFQ_EVAL_LANGUAGE_H

#include <stddef.h>

/* ISO 639-1 code ("en"), "" when the letters fit none, NULL when the text has no letters. Latin text of ASCII letters in
 * which no known word occurs counts as English. */
const char *infq_language_of(const char *text, size_t n);
/* Whether the table has the code. */
int infq_language_known(const char *code);

#endif
