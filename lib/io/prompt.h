/* Prompt templates of evaluations: the Jinja of lib/io/chat.h over the fields of a data set's row. Unlike in chat templates, a field that is
 * missing is an error where it is used (`default` and `is defined` apart), so that a wrong prompt is never made silently, and a newline at
 * the end of the template is kept. */
#ifndef INFQ_IO_PROMPT_H
#define INFQ_IO_PROMPT_H

#include "lib/base/buf.h"
#include "lib/base/json.h"

typedef struct infq_prompt infq_prompt;
/* FORMAT or UNSUPPORTED, with line. */
infq_status infq_prompt_parse(const char *text, infq_prompt **out, infq_err *err);
void infq_prompt_free(infq_prompt *p);

/* The fields that templates see, read once for several of them. */
typedef struct infq_fields infq_fields;
/* json: text of an object. What later objects hold hides what earlier ones do. */
infq_status infq_fields_new(infq_fields **out, infq_err *err);
infq_status infq_fields_add(infq_fields *f, const char *json, size_t n, infq_err *err);
/* One field more (or another value). */
infq_status infq_fields_set(infq_fields *f, const char *name, const cJSON *value, infq_err *err);
void infq_fields_clear(infq_fields *f);
void infq_fields_free(infq_fields *f);

/* Appends the text. FORMAT: a field is missing, or what Jinja refuses. */
infq_status infq_prompt_text(const infq_prompt *p, infq_fields *f, infq_buf *out, infq_err *err);
/* Value of a template that is one {{ expression }}: list, object, number, text; of any other its text. cJSON_Delete. */
infq_status infq_prompt_value(const infq_prompt *p, infq_fields *f, cJSON **out, infq_err *err);

#endif
