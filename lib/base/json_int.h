/* Between json.c and json_check.c, and for readers that cut huge documents into members themselves. */
#ifndef INFQ_BASE_JSON_INT_H
#define INFQ_BASE_JSON_INT_H

#include "lib/base/err.h"

/* The whole text is one JSON value by RFC 8259 (see infq_json_parse). Key repetition is found per object with a hash map. */
infq_status infq_json_check(const char *text, size_t n, const char *what, infq_err *err);

#endif
