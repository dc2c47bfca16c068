/* Stands in for a library that needs to export only one function: STANDIN_FUNCTION, in the group STANDIN_GROUP, returns
   STANDIN_ANSWER and prints STANDIN_COMPLAINT. It calls STANDIN_CALLS and STANDIN_CALLS_TOO, so it depends on their
   DLLs. For tests only. */
#include "standin.h"

#ifndef STANDIN_ANSWER
#define STANDIN_ANSWER 0
#endif

EXPORT int rocenv_standin = 1;

ON_LOAD(STANDIN_NAME, "load." STANDIN_GROUP)

#ifdef STANDIN_CALLS
int STANDIN_CALLS(void *);
#endif
#ifdef STANDIN_CALLS_TOO
int STANDIN_CALLS_TOO(void *);
#endif

EXPORT int STANDIN_FUNCTION(void *argument) {
    FAIL(STANDIN_GROUP);
    (void)argument;
#ifdef STANDIN_CALLS
    int called = argument ? STANDIN_CALLS(argument) : 0; /* without an argument, do not call it: it only creates a dependency */
    if (called) return called;
#endif
#ifdef STANDIN_CALLS_TOO
    called = argument ? STANDIN_CALLS_TOO(argument) : 0;
    if (called) return called;
#endif
#ifdef STANDIN_COMPLAINT
    fprintf(stderr, "%s: %s\n", STANDIN_NAME, STANDIN_COMPLAINT);
#endif
    return STANDIN_ANSWER;
}
