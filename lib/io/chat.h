/* Chat templates: the part of Jinja that model families use, read as transformers reads it (trim_blocks and lstrip_blocks on,
 * break and continue allowed, `generation` tags transparent, tojson as plain JSON). Format and limits: docs/format/chat.md.
 * A construct that is not in the part is UNSUPPORTED by name and line: a wrong prompt is never made.
 *
 * Templates come from downloaded files: reading and running them takes bounded memory, depth and number of steps. */
#ifndef INFQ_IO_CHAT_H
#define INFQ_IO_CHAT_H

#include "lib/base/buf.h"

typedef struct infq_chat infq_chat;

/* FORMAT for what Jinja refuses too, with line. */
infq_status infq_chat_parse(const char *text, size_t n, infq_chat **out, infq_err *err);
/* The template of a model folder: chat_template.jinja, else chat_template of tokenizer_config.json (of several the one named
 * "default"), with that file's bos_token and eos_token as variables. NOT_FOUND when the model has none. */
infq_status infq_chat_open(const char *folder, infq_chat **out, infq_err *err);
void infq_chat_free(infq_chat *c);
const char *infq_chat_digest(const infq_chat *c); /* SHA-256 of the template's text */

/* Day that strftime_now() tells when the caller gives none, so that stored prompts can be made again. */
#define INFQ_CHAT_DATE "2024-07-26"

/* Renders with the variables of a JSON object ("messages" and what else the template reads); they hide the folder's tokens.
 * Absent here: add_generation_prompt = true, tools = documents = null. date: "YYYY-MM-DD", NULL for INFQ_CHAT_DATE.
 * Appends to out. FORMAT when the template raises an exception or does what Jinja refuses; UNSUPPORTED names what we lack. */
infq_status infq_chat_render(const infq_chat *c, const char *vars, size_t n_vars, const char *date, infq_buf *out, infq_err *err);
/* One user message, behind a system message if that is not NULL. */
infq_status infq_chat_prompt(const infq_chat *c, const char *system, const char *user, size_t n_user, const char *date,
                             infq_buf *out, infq_err *err);

#endif
