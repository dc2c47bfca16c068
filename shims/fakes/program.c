/* A program that prints what it replaces, and exits with STANDIN_EXIT. For tests only; see ../README.md. */
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "--version")) return puts(STANDIN_SAYS), 0;
    fprintf(stderr, "rocenv stand-in: this is %s, test equipment, and should not have been run\n", STANDIN_NAME);
    return STANDIN_EXIT;
}
