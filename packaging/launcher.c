/* The launcher of the bundle: a static program without a C library, so that it starts on any Linux.
 *
 * It finds the directory that it lies in and replaces itself by the bundle's own Python, which the bundle's own loader
 * starts with the bundle's own libraries. It reads no other file, needs no /proc and no shell, and writes nothing.
 * Compiled twice: as logcleaner, which runs the command line, and with -DPYTHON as bin/python3. Python takes the latter
 * for itself (sys.executable), so a child process that it starts by that name comes through here again.
 */

#define PATH_BYTES_MAX 4096
#define SYMLINKS_MAX 40
#define AT_FDCWD (-100)
#define AT_EXECFN 31
#define STATUS_NOT_STARTED 126 /* as shells have it */
enum { NOT_PERMITTED = 1, NO_ENTRY = 2, TOO_BIG = 7, NO_MEMORY = 12, NO_ACCESS = 13 };

#if defined(__x86_64__)
enum { WRITE = 1, EXECVE = 59, EXIT = 60, GETCWD = 79, READLINKAT = 267 };
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call launch\n");
static long call(long number, long a, long b, long c, long d) {
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { WRITE = 64, EXECVE = 221, EXIT = 93, GETCWD = 17, READLINKAT = 78 };
__asm__(".globl _start\n_start: mov x29, #0\n mov x0, sp\n bl launch\n");
static long call(long number, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "the launcher knows x86-64 and aarch64"
#endif

static long length(const char *text) {
    long bytes = 0;
    while (text[bytes]) bytes++;
    return bytes;
}

static void say(const char *text) { call(WRITE, 2, (long)text, length(text), 0); }

/* End with one line on stderr. */
static __attribute__((noreturn)) void fail(const char *path, const char *cause) {
    say("logcleaner: "), say(path), say(": "), say(cause), say("\n");
    for (;;) call(EXIT, STATUS_NOT_STARTED, 0, 0, 0);
}

/* Write "first" and "second" one behind the other, and return "to". */
static char *join(char *to, const char *first, const char *second) {
    if (length(first) + length(second) >= PATH_BYTES_MAX) fail(second, "the path is too long");
    char *end = to;
    while (*first) *end++ = *first++;
    while (*second) *end++ = *second++;
    *end = 0;
    return to;
}

static int begins(const char *text, const char *with) {
    while (*with)
        if (*text++ != *with++) return 0;
    return 1;
}

/* Cut the last component off a path, with its slash. */
static void cut(char *path) {
    long bytes = length(path);
    while (bytes && path[bytes - 1] != '/') bytes--;
    path[bytes ? bytes - 1 : 0] = 0;
}

/* Write the absolute path of this program into "path", with every symlink at its end followed. */
static void find(char *path, const char *started_as) {
    char here[PATH_BYTES_MAX], link[PATH_BYTES_MAX];
    while (started_as[0] == '.' && started_as[1] == '/') started_as += 2;
    here[0] = 0;
    if (*started_as != '/') {
        if (call(GETCWD, (long)here, sizeof here - 1, 0, 0) < 0 || *here != '/')
            fail(started_as, "the current directory is gone; start it by an absolute path");
        join(here, here[1] ? here : "", "/");
    }
    join(path, here, started_as);
    for (int followed = 0; followed < SYMLINKS_MAX; followed++) {
        long bytes = call(READLINKAT, AT_FDCWD, (long)path, (long)link, sizeof link - 1);
        if (bytes < 0) return;
        link[bytes] = 0;
        if (*link == '/') {
            join(path, "", link);
        } else {
            cut(path);
            join(here, path, "/");
            join(path, here, link);
        }
    }
    fail(path, "the symlinks lead in a circle");
}

static const char *cause_of(long error) {
    switch (error) {
    case NO_ENTRY: return "is missing; the bundle is incomplete: unpack it again";
    case NOT_PERMITTED:
    case NO_ACCESS: return "may not be executed: its file system is mounted noexec, or its mode was changed";
    case TOO_BIG: return "the arguments and the environment are too long";
    case NO_MEMORY: return "there is not enough memory";
    default: return "cannot be executed; the bundle is damaged, or for another kind of processor: unpack it again";
    }
}

__attribute__((noreturn, used)) void launch(long *stack) {
    static char root[PATH_BYTES_MAX], loader[PATH_BYTES_MAX], libraries[PATH_BYTES_MAX], program[PATH_BYTES_MAX],
        python[PATH_BYTES_MAX], itself[PATH_BYTES_MAX];
    long argc = *stack;
    char **argv = (char **)(stack + 1), **given = argv + argc + 1, **last = given;
    const char *started_as = argc ? argv[0] : "logcleaner";
    while (*last) last++;
    for (long *auxiliary = (long *)(last + 1); *auxiliary; auxiliary += 2)
        if (*auxiliary == AT_EXECFN) started_as = (const char *)auxiliary[1];

    find(program, started_as);
    join(root, "", program);
    cut(root);
#ifdef PYTHON
    cut(root);
#endif
    for (char *at = root; *at; at++)
        if (*at == ':' || *at == ';' || *at == '$') fail(root, "no : ; or $ may be in the path; move the directory");
    join(loader, root, "/libexec/logcleaner");
    join(libraries, root, "/lib");
    join(python, root, "/libexec/python3");
    join(itself, root, "/bin/python3");

    char *next[argc + 20], **to = next;
    *to++ = argc ? argv[0] : program;
    *to++ = "--inhibit-cache";
    *to++ = "--library-path", *to++ = libraries;
    *to++ = "--argv0", *to++ = itself;
    *to++ = python;
    /* isolated from the user's PYTHON* and packages, no bytecode is written, UTF-8 whatever the host's locales */
    *to++ = "-I", *to++ = "-B", *to++ = "-X", *to++ = "utf8", *to++ = "-X", *to++ = "bundle";
#ifndef PYTHON
    *to++ = "-c", *to++ = "import sys; del sys.argv[0]; from cleaner.__main__ import run; sys.exit(run())";
    *to++ = program;
#endif
    for (long argument = 1; argument < argc; argument++) *to++ = argv[argument];
    *to = 0;

    /* what names the host's libraries (Alpine preloads libgcompat) or locales is for another C library */
    char *environment[last - given + 2], **kept = environment;
    for (char **entry = given; *entry; entry++)
        if (!begins(*entry, "LD_") && !begins(*entry, "LC_") && !begins(*entry, "LANG") && !begins(*entry, "LOCPATH="))
            *kept++ = *entry;
    *kept++ = "LC_ALL=C";
    *kept = 0;
    fail(loader, cause_of(-call(EXECVE, (long)loader, (long)next, (long)environment, 0)));
}
