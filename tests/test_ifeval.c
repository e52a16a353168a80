/* IFEval: every kind of instruction with answers that follow it and that do not, loose variants, the languages. */
#include "lib/eval/ifeval.h"
#include "lib/eval/language.h"
#include "tests/testlib.h"

static infq_err err;

static infq_ifeval *instructions(const char *json)
{
    infq_ifeval *e = NULL;
    cJSON *doc = NULL;

    ck_ok(infq_json_parse(json, strlen(json), "doc", &doc, &err), err);
    ck_ok(infq_ifeval_new(doc, &e, &err), err);
    cJSON_Delete(doc);
    return e;
}

typedef struct {
    const char *id, *kwargs, *answer;
    bool strict, loose;
} check;

static const check checks[] = {
    { "punctuation:no_comma", "{}", "no comma here", true, true },
    { "punctuation:no_comma", "{}", "one, two", false, false },
    { "punctuation:no_comma", "{}", "Sure, here:\nno comma", false, true },
    { "length_constraints:number_words", "{\"relation\":\"at least\",\"num_words\":3}", "one two-three", true, true },
    { "length_constraints:number_words", "{\"relation\":\"less than\",\"num_words\":3}", "one two-three", false, false },
    { "length_constraints:number_words", "{\"relation\":\"less than\",\"num_words\":3}", "one two\nthree", false, true },
    { "length_constraints:number_sentences", "{\"relation\":\"at least\",\"num_sentences\":3}", "Dr. No came. He saw! Why?",
      true, true },
    { "length_constraints:number_sentences", "{\"relation\":\"less than\",\"num_sentences\":3}",
      "It cost 3.5 dollars. (Really?) Yes", false,
      false },
    { "length_constraints:number_sentences", "{\"relation\":\"less than\",\"num_sentences\":3}",
      "He said \"Go.\" Then e.g. nothing.", true,
      true },
    { "length_constraints:number_paragraphs", "{\"num_paragraphs\":2}", "a\n***\nb", true, true },
    { "length_constraints:number_paragraphs", "{\"num_paragraphs\":2}", "***a\n***\nb\n***\n", true, true },
    { "length_constraints:number_paragraphs", "{\"num_paragraphs\":2}", "a\n***\n***\nb", false, false },
    { "length_constraints:nth_paragraph_first_word", "{\"first_word\":\"Elm\",\"num_paragraphs\":2,\"nth_paragraph\":2}",
      "a b\n\n\"elm, c", true, true },
    { "length_constraints:nth_paragraph_first_word", "{\"first_word\":\"elm\",\"num_paragraphs\":2,\"nth_paragraph\":2}",
      "a b\n\nthe elm", false, false },
    { "length_constraints:nth_paragraph_first_word", "{\"first_word\":\"elm\",\"num_paragraphs\":3,\"nth_paragraph\":2}",
      "a\n\nelm",
      false, false },
    { "detectable_content:number_placeholders", "{\"num_placeholders\":2}", "[a] and [b]", true, true },
    { "detectable_content:number_placeholders", "{\"num_placeholders\":2}", "[a\nb] [c]", false, false },
    { "detectable_content:postscript", "{\"postscript_marker\":\"P.S.\"}", "bye\nP. S. more", true, true },
    { "detectable_content:postscript", "{\"postscript_marker\":\"P.P.S\"}", "bye\nP.S. more", false, false },
    { "detectable_content:postscript", "{\"postscript_marker\":\"P.P.S\"}", "bye\nP.P.S more", true, true },
    { "detectable_format:number_bullet_lists", "{\"num_bullets\":2}", "list\n* a\n - b", true, true },
    { "detectable_format:number_bullet_lists", "{\"num_bullets\":2}", "* a\n** b\n* c\n* d\n* e\n* f", false, false },
    { "detectable_format:number_highlighted_sections", "{\"num_highlights\":2}", "*a* and **b**", true, true },
    { "detectable_format:number_highlighted_sections", "{\"num_highlights\":1}", "* * ** **", false, false },
    { "detectable_format:multiple_sections", "{\"num_sections\":2,\"section_spliter\":\"SECTION\"}",
      "SECTION 1\na\nSECTION2\nb", true,
      true },
    { "detectable_format:multiple_sections", "{\"num_sections\":2,\"section_spliter\":\"SECTION\"}", "SECTION 1\na\nSECTION b",
      false,
      false },
    { "detectable_format:title", "{}", "<<A title>>\ntext", true, true },
    { "detectable_format:title", "{}", "<< >>\n<a title>", false, false },
    { "detectable_format:json_format", "{}", "```json\n{\"a\": [1, 2.5e3, NaN, \"\\u00e9\"], \"a\": {}}\n```", true, true },
    { "detectable_format:json_format", "{}", "{\"a\": 1,}", false, false },
    { "detectable_format:json_format", "{}", "Here it is:\n{\"a\": 01}", false, false },
    { "detectable_format:json_format", "{}", "Here it is:\n{\"a\": 1}", false, true },
    { "detectable_format:constrained_response", "{}", "Well. My answer is maybe.", true, true },
    { "detectable_format:constrained_response", "{}", "My answer is **no.**", false, true },
    { "detectable_format:constrained_response", "{}", "no", false, false },
    { "keywords:existence", "{\"keywords\":[\"sun\",\"moon\"]}", "Sunday at the MOON", true, true },
    { "keywords:existence", "{\"keywords\":[\"sun\",\"moon\"]}", "sun", false, false },
    { "keywords:forbidden_words", "{\"forbidden_words\":[\"sun\"]}", "Sunday", true, true },
    { "keywords:forbidden_words", "{\"forbidden_words\":[\"sun\"]}", "the Sun.", false, false },
    { "keywords:frequency", "{\"relation\":\"at least\",\"keyword\":\" art \",\"frequency\":2}", "Art and part", true, true },
    { "keywords:frequency", "{\"relation\":\"less than\",\"keyword\":\"art\",\"frequency\":2}", "Art and part", false, false },
    { "keywords:letter_frequency", "{\"let_relation\":\"at least\",\"letter\":\"E\",\"let_frequency\":3}", "Eve e", true, true },
    { "keywords:letter_frequency", "{\"let_relation\":\"less than\",\"letter\":\"#\",\"let_frequency\":2}", "# #", false, false },
    { "change_case:english_capital", "{}", "THIS IS LOUD.", true, true },
    { "change_case:english_capital", "{}", "THIS IS LOUd.", false, false },
    { "change_case:english_capital", "{}", "DAS IST NICHT DIE FRAGE, UND ES IST ZU LAUT.", false, false },
    { "change_case:english_lowercase", "{}", "this is quiet.", true, true },
    { "change_case:english_lowercase", "{}", "This is quiet.", false, false },
    { "change_case:capital_word_frequency", "{\"capital_relation\":\"at least\",\"capital_frequency\":4}",
      "I'm in the USA, (NOT A-B).", true,
      true },
    { "change_case:capital_word_frequency", "{\"capital_relation\":\"less than\",\"capital_frequency\":2}", "Go. DON'T", false,
      false },
    { "combination:two_responses", "{}", "one\n******\ntwo", true, true },
    { "combination:two_responses", "{}", "one\n******\none", false, false },
    { "combination:two_responses", "{}", "one\n******\n\n******two", false, false },
    { "combination:two_responses", "{}", "******one******two", true, true },
    { "combination:repeat_prompt", "{\"prompt_to_repeat\":\"Say it\"}", " say IT. ok", true, true },
    { "combination:repeat_prompt", "{\"prompt_to_repeat\":\"Say it\"}", "ok. say it", false, false },
    { "combination:repeat_prompt", "{\"prompt_to_repeat\":\"Say it\"}", "Sure:\nsay it. ok", false, true },
    { "startend:end_checker", "{\"end_phrase\":\"That is all.\"}", "\"x. that is ALL.\"", true, true },
    { "startend:end_checker", "{\"end_phrase\":\"That is all.\"}", "That is all. Bye", false, false },
    { "startend:end_checker", "{\"end_phrase\":\"That is all.\"}", "That is all.\nBye", false, true },
    { "startend:quotation", "{}", "  \"x\" ", true, true },
    { "startend:quotation", "{}", "\"", false, false },
    { "language:response_language", "{\"language\":\"de\"}", "Das ist nicht die Frage, und es ist zu laut.", true, true },
    { "language:response_language", "{\"language\":\"de\"}", "This is not the question, and it is loud.", false, false },
    { "language:response_language", "{\"language\":\"de\"}", "123 456", true, true },
};

START_TEST(every_kind_is_checked_as_the_original_does)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        const check *c = &checks[i];
        char json[600];
        bool strict, loose;
        infq_ifeval *e;

        snprintf(json, sizeof(json), "{\"instruction_id_list\":[\"%s\"],\"kwargs\":[%s]}", c->id, c->kwargs);
        e = instructions(json);
        ck_ok(infq_ifeval_check(e, c->answer, strlen(c->answer), &strict, &loose, &err), err);
        ck_assert_msg(strict == c->strict && loose == c->loose, "%s %s on <%s>: strict %d loose %d", c->id, c->kwargs,
                      c->answer, strict,
                      loose);
        infq_ifeval_free(e);
    }
}
END_TEST

START_TEST(the_checks_cover_every_kind_both_ways)
{
    for (int k = 0; k < infq_ifeval_n_kinds(); k++) {
        int yes = 0, no = 0;
        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
            if (strcmp(checks[i].id, infq_ifeval_kind_name(k)) != 0)
                continue;
            yes += checks[i].strict;
            no += !checks[i].strict;
        }
        ck_assert_msg(yes > 0 && no > 0, "%s: %d and %d", infq_ifeval_kind_name(k), yes, no);
    }
}
END_TEST

START_TEST(every_prompt_of_the_data_can_be_checked)
{
    infq_buf text;
    bool strict[64], loose[64], seen[64] = { false };
    int n = 0;

    TEST_NEEDS_SHARED();
    infq_buf_init(&text);
    ck_ok(infq_file_read(test_shared_path("data/ifeval/input_data.jsonl"), (size_t)1 << 24, &text, &err), err);
    for (char *line = text.data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, n++) {
        const char *answer = "I am sure.\n\nHere it is, with a word or two.";
        cJSON *doc = NULL;
        const cJSON *id;
        infq_ifeval *e = NULL;

        *end = '\0';
        ck_ok(infq_json_parse(line, strlen(line), "doc", &doc, &err), err);
        ck_ok(infq_ifeval_new(doc, &e, &err), err);
        ck_ok(infq_ifeval_check(e, answer, strlen(answer), strict, loose, &err), err);
        ck_ok(infq_ifeval_check(e, " \n", 2, strict, loose, &err), err);
        ck_assert(!strict[0] && !loose[0]);
        cJSON_ArrayForEach(id, infq_json_get(doc, "instruction_id_list"))
            for (int k = 0; k < infq_ifeval_n_kinds(); k++)
                seen[k] = seen[k] || strcmp(id->valuestring, infq_ifeval_kind_name(k)) == 0;
        infq_ifeval_free(e);
        cJSON_Delete(doc);
    }
    ck_assert_int_eq(n, 541);
    for (int k = 0; k < infq_ifeval_n_kinds(); k++)
        ck_assert_msg(seen[k], "no prompt uses %s", infq_ifeval_kind_name(k));
    infq_buf_deinit(&text);
}
END_TEST

static void refuses(const char *json, infq_status code, const char *says)
{
    infq_ifeval *e = NULL;
    cJSON *doc = NULL;

    ck_ok(infq_json_parse(json, strlen(json), "doc", &doc, &err), err);
    ck_assert_int_eq(infq_ifeval_new(doc, &e, &err), code);
    ck_assert_msg(strstr(err.msg, says) != NULL, "<%s> does not say <%s>", err.msg, says);
    cJSON_Delete(doc);
}

START_TEST(unknown_kinds_and_missing_arguments_are_named)
{
    refuses("{\"instruction_id_list\":[\"a:b\"],\"kwargs\":[{}]}", INFQ_E_UNSUPPORTED, "a:b");
    refuses("{\"instruction_id_list\":[\"detectable_format:title\"],\"kwargs\":[]}", INFQ_E_FORMAT, "kwargs");
    refuses("{\"instruction_id_list\":[\"keywords:existence\"],\"kwargs\":[{\"keywords\":null}]}", INFQ_E_FORMAT, "keywords");
    refuses("{\"instruction_id_list\":[\"length_constraints:number_words\"],"
            "\"kwargs\":[{\"relation\":\"about\",\"num_words\":3}]}",
            INFQ_E_FORMAT, "relation");
    refuses("{\"instruction_id_list\":[\"language:response_language\"],\"kwargs\":[{\"language\":\"xx\"}]}",
            INFQ_E_UNSUPPORTED, "xx");
    refuses("{\"instruction_id_list\":[\"keywords:existence\"],\"kwargs\":[{\"keywords\":[\"a(\"]}]}", INFQ_E_FORMAT, "a(");
}
END_TEST

static void is_language(const char *text, const char *want)
{
    const char *got = infq_language_of(text, strlen(text));

    ck_assert_msg(want ? got && strcmp(got, want) == 0 : !got, "<%s> is %s, not %s", text, got ? got : "nothing",
                  want ? want : "nothing");
}

START_TEST(languages_are_told_apart)
{
    is_language("The weather is nice today and we should go out.", "en");
    is_language("HELLO WORLD", "en");
    is_language("Il fait beau aujourd'hui et nous devons sortir avec les enfants.", "fr");
    is_language("O tempo est\xc3\xa1 bom hoje e n\xc3\xa3o vamos ficar em casa.", "pt");
    is_language("El tiempo es bueno hoy y no vamos a quedarnos en la casa.", "es");
    is_language("Oggi il tempo \xc3\xa8 bello e non restiamo a casa con gli amici.", "it");
    is_language("S\xc3\xa4\xc3\xa4 on t\xc3\xa4n\xc3\xa4\xc3\xa4n kaunis, ja me menemme ulos, mutta se ei ole varmaa.", "fi");
    is_language("Hali ya hewa ni nzuri leo na tutatoka nje kwa sababu ya jua.", "sw");
    is_language("H\xc3\xb4m nay tr\xe1\xbb\x9di \xc4\x91\xe1\xba\xb9p v\xc3\xa0 ch\xc3\xbang t\xc3\xb4i \xc4\x91i ra "
                "ngo\xc3\xa0i.", "vi");
    is_language("Сегодня хорошая погода, и мы пойдём гулять, но это не точно.", "ru");
    is_language("Днес времето е хубаво и ще отидем на разходка, но не съм сигурен.", "bg");
    is_language("الطقس جميل اليوم ونحن نريد أن نخرج من البيت إلى الحديقة", "ar");
    is_language("امروز هوا خوب است و ما از خانه بیرون می رویم که با هم باشیم", "fa");
    is_language("آج موسم اچھا ہے اور ہم گھر سے باہر جا رہے ہیں", "ur");
    is_language("आज मौसम अच्छा है और हम घर से बाहर जा रहे हैं", "hi");
    is_language("आज हवामान छान आहे आणि आम्ही बाहेर जात आहोत", "mr");
    is_language("आज मौसम राम्रो छ र हामी बाहिर जाँदैछौं", "ne");
    is_language("আজ আবহাওয়া ভালো", "bn");
    is_language("ਅੱਜ ਮੌਸਮ ਚੰਗਾ ਹੈ", "pa");
    is_language("આજે હવામાન સારું છે", "gu");
    is_language("இன்று வானிலை நன்றாக உள்ளது", "ta");
    is_language("ఈ రోజు వాతావరణం బాగుంది", "te");
    is_language("ಇಂದು ಹವಾಮಾನ ಚೆನ್ನಾಗಿದೆ", "kn");
    is_language("วันนี้อากาศดี", "th");
    is_language("오늘 날씨가 좋습니다", "ko");
    is_language("今日は天気がいいです", "ja");
    is_language("今天天气很好", "zh");
    is_language("12, 13!", NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ifeval");
    TCase *t = tcase_create("instructions");

    tcase_add_test(t, every_kind_is_checked_as_the_original_does);
    tcase_add_test(t, the_checks_cover_every_kind_both_ways);
    tcase_add_test(t, every_prompt_of_the_data_can_be_checked);
    tcase_add_test(t, unknown_kinds_and_missing_arguments_are_named);
    tcase_add_test(t, languages_are_told_apart);
    suite_add_tcase(s, t);
    return test_main(s);
}
