/* Opens a program that is a shared library, and with it its MPI, as an interpreter does: in a scope of their own. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "run") : NULL;
    if (!run) return fprintf(stderr, "%s\n", dlerror()), 1;
    return run(argc, argv);
}
