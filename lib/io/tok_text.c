#include <utf8proc.h>

#include "lib/io/tok_int.h"

uint32_t infq_tok_next(const char *s, size_t n, size_t *len)
{
    if (!((unsigned char)*s & 0x80)) {
        *len = 1;
        return (unsigned char)*s;
    }
    return infq_utf8_next(s, n, len);
}

bool infq_tok_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool infq_tok_is_mark(uint32_t cp)
{
    utf8proc_category_t c = category(cp);

    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool infq_tok_is_numeric(uint32_t cp)
{
    utf8proc_category_t c;

    if (cp < 0x80)
        return cp >= '0' && cp <= '9';
    c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool infq_tok_is_punct(uint32_t cp)
{
    utf8proc_category_t c;

    if (cp < 0x80)
        return (cp >= 33 && cp <= 47) || (cp >= 58 && cp <= 64) || (cp >= 91 && cp <= 96) ||
               (cp >= 123 && cp <= 126);
    c = category(cp);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool infq_tok_is_word(uint32_t cp)
{
    utf8proc_category_t c;

    if (cp < 0x80)
        return (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z') ||
               cp == '_';
    c = category(cp);
    if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO)
        return true;
    // The ranges are the symbols with Other_Alphabetic (circled and squared letters); 200c and 200d
    // are Join_Control.
    return infq_tok_is_mark(cp) || c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL ||
           c == UTF8PROC_CATEGORY_PC || cp == 0x200c || cp == 0x200d ||
           (cp >= 0x24b6 && cp <= 0x24e9) || (cp >= 0x1f130 && cp <= 0x1f149) ||
           (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189);
}

void infq_tok_alphabet_init(infq_tok_alphabet *a)
{
    uint32_t next = 0x100;

    for (size_t i = 0; i < 0x144; i++)
        a->byte_of[i] = -1;
    for (uint32_t b = 0; b < 256; b++) {
        bool self = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        uint32_t cp = self ? b : next++;
        char text[4];

        a->len[b] = (uint8_t)infq_utf8_put(cp, text);
        a->text[b][0] = text[0];
        a->text[b][1] = a->len[b] > 1 ? text[1] : 0;
        a->byte_of[cp] = (int16_t)b;
    }
}

void infq_tok_alphabet_map(const infq_tok_alphabet *a, const char *s, size_t n, infq_buf *to)
{
    char part[512];
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)s[i];

        if (k + 2 > sizeof(part)) {
            infq_buf_add(to, part, k);
            k = 0;
        }
        part[k] = a->text[b][0];
        part[k + 1] = a->text[b][1];
        k += a->len[b];
    }
    infq_buf_add(to, part, k);
}
