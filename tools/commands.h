/* Entry points of the commands, one file each (cmd_<name>.c). */
#ifndef INFQ_TOOLS_COMMANDS_H
#define INFQ_TOOLS_COMMANDS_H

int cmd_quantize(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_gen(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_bench(int argc, char **argv);

#endif
