/* main.c - the program stetfs. All it does is in the layer's library, which tests can link. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	return stet_cli_main(argc, argv);
}
