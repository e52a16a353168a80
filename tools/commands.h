/* Entry points of the commands, one file each (cmd_<name>.c), and the option tables that recipes take their keys from. */
#ifndef INFQ_TOOLS_COMMANDS_H
#define INFQ_TOOLS_COMMANDS_H

#include "tools/opt.h"

int cmd_quantize(int argc, char **argv);
int cmd_prune(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_gen(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_receipt(int argc, char **argv);
int cmd_receipt_write(int argc, char **argv);

extern const opt_spec cmd_quantize_spec, cmd_prune_spec, cmd_verify_spec, cmd_convert_spec, cmd_eval_spec, cmd_eval_gate_spec, cmd_eval_noise_spec,
    cmd_eval_report_page_spec, cmd_bench_spec, cmd_receipt_write_spec;

#endif
