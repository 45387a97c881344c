/* cli.h - the command, as main() sees it. */
#ifndef STET_CLI_CLI_H
#define STET_CLI_CLI_H

/** Runs one command line; argv[0] decides under which name. Returns the exit code. */
int stet_cli_main(int argc, char **argv);

#endif
