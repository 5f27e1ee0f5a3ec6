/* Fails chosen calls of the C library on the files below a folder.

   Preloaded (LD_PRELOAD) into a process, it reads its plan from environment
   variables, anew whenever FAULT_PLAN changes, so that a forked process can set
   its own:

     FAULT_PLAN    "NUMBER CALL ERRNO THEN": the NUMBER-th CALL of this process
                   fails with ERRNO, and after it every call whose letter is in
                   THEN ("-": none). ERRNO 0 makes a write short. CALL and THEN
                   have the letters of `letters`. NUMBER 0: none fails.
     FAULT_FOLDER  the folder, an absolute path without symbolic links
     FAULT_TRACE   a folder for the file `calls`, which gets a line for each
                   call: its letter and its path. With NUMBER 0, it also gets a
                   link to each file that is renamed below FAULT_FOLDER, and
                   the line "= NUMBER PATH".

   Streams of stdio reach the kernel without the functions that can be replaced
   here, so that fwrite, fflush and fclose count as writes, too. Files that are
   written through mmap are not reached. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* write, fsync, rename, open for writing, mkdir, unlink, lock */
static const char letters[] = "wsromul";

static char plan[64];
static int number, code, calls[sizeof letters], links, is_failing;
static char call, then[16];

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Writes a line to the trace, without the functions that are replaced. */
static void note(const char *trace, const char *line) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/calls", trace);
  int file = syscall(SYS_openat, AT_FDCWD, path,
                     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  syscall(SYS_write, file, line, strlen(line));
  syscall(SYS_close, file);
}

static void read_plan(void) {
  const char *now = getenv("FAULT_PLAN");
  if (!now || !strcmp(now, plan)) return;
  snprintf(plan, sizeof plan, "%s", now);
  memset(calls, 0, sizeof calls);
  is_failing = 0;
  if (sscanf(plan, "%d %c %d %15s", &number, &call, &code, then) != 4) abort();
}

/* Finds the absolute path of `path`; a descriptor's own if `path` is NULL. */
static int resolve(int folder, const char *path, char *full) {
  char link[64], base[PATH_MAX] = "";
  if (path && path[0] == '/') {
    snprintf(full, PATH_MAX, "%s", path);
    return 1;
  }
  snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd"
                                                 : "/proc/self/fd/%d", folder);
  long length = syscall(SYS_readlinkat, AT_FDCWD, link, base, PATH_MAX - 1);
  if (length < 0) return 0;
  base[length] = 0;
  if (snprintf(full, PATH_MAX, path ? "%s/%s" : "%s", base, path) >= PATH_MAX)
    return 0;
  return 1;
}

/* Whether this call must fail; counts and notes it if it is below the folder. */
static int fails(char letter, int descriptor, const char *path) {
  const char *folder = getenv("FAULT_FOLDER");
  char full[PATH_MAX], line[PATH_MAX + 8];
  int before = errno;
  if (!folder || !getenv("FAULT_PLAN")) return 0;
  if (!resolve(descriptor, path, full)) return errno = before, 0;
  errno = before;
  size_t length = strlen(folder);
  if (strncmp(full, folder, length) || (full[length] && full[length] != '/'))
    return 0;
  read_plan();
  int count = __atomic_add_fetch(&calls[strchr(letters, letter) - letters], 1,
                                 __ATOMIC_SEQ_CST);
  int is_chosen = letter == call && count == number;
  int result = is_chosen || (is_failing && strchr(then, letter));
  if (is_chosen) is_failing = 1;
  if (getenv("FAULT_TRACE")) {
    snprintf(line, sizeof line, "%c%c %s\n", letter, result ? '!' : ' ', full);
    note(getenv("FAULT_TRACE"), line);
  }
  if (result) errno = code ? code : ENOSPC;
  else errno = before;
  return result;
}

/* Keeps the content that a rename publishes. */
static void keep(int descriptor, const char *path) {
  const char *trace = getenv("FAULT_TRACE"), *folder = getenv("FAULT_FOLDER");
  char full[PATH_MAX], kept[PATH_MAX], line[2 * PATH_MAX];
  if (!trace || !folder || number || !resolve(descriptor, path, full)) return;
  if (strncmp(full, folder, strlen(folder))) return;
  int index = __atomic_add_fetch(&links, 1, __ATOMIC_SEQ_CST);
  snprintf(kept, sizeof kept, "%s/%d", trace, index);
  if (syscall(SYS_linkat, AT_FDCWD, full, AT_FDCWD, kept, 0)) return;
  snprintf(line, sizeof line, "= %d %s\n", index, full);
  note(trace, line);
}

/* Opening */

static int writes(int flags) {
  return flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest); \
    if (writes(flags) && fails('o', AT_FDCWD, path)) return -1; \
    return real(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int folder, const char *path, int flags, ...) { \
    REAL(name); \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest); \
    if (writes(flags) && fails('o', folder, path)) return -1; \
    return real(folder, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name) \
  FILE *name(const char *path, const char *mode) { \
    REAL(name); \
    if (strpbrk(mode, "wa+") && fails('o', AT_FDCWD, path)) return NULL; \
    return real(path, mode); \
  }
FOPEN(fopen)
FOPEN(fopen64)

/* Writing */

#define SHORTER(size) (code == 0 && (size) > 1)

ssize_t write(int file, const void *data, size_t size) {
  REAL(write);
  if (!fails('w', file, NULL)) return real(file, data, size);
  return SHORTER(size) ? real(file, data, size / 2) : -1;
}

#define PWRITE(name, offset_type) \
  ssize_t name(int file, const void *data, size_t size, offset_type offset) { \
    REAL(name); \
    if (!fails('w', file, NULL)) return real(file, data, size, offset); \
    return SHORTER(size) ? real(file, data, size / 2, offset) : -1; \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec *parts, int count) {
  REAL(writev);
  if (!fails('w', file, NULL)) return real(file, parts, count);
  return SHORTER(count) ? real(file, parts, count / 2) : -1;
}

#define SENDFILE(name, offset_type) \
  ssize_t name(int to, int from, offset_type *offset, size_t size) { \
    ssize_t (*real)(int, int, offset_type *, size_t) = \
      (ssize_t (*)(int, int, offset_type *, size_t))dlsym(RTLD_NEXT, #name); \
    if (!fails('w', to, NULL)) return real(to, from, offset, size); \
    return SHORTER(size) ? real(to, from, offset, 1) : -1; \
  }
SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

size_t fwrite(const void *data, size_t size, size_t count, FILE *stream) {
  REAL(fwrite);
  if (!fails('w', fileno(stream), NULL)) return real(data, size, count, stream);
  return SHORTER(count) ? real(data, size, count / 2, stream) : 0;
}

int fflush(FILE *stream) {
  REAL(fflush);
  int result = real(stream);
  return stream && fails('w', fileno(stream), NULL) ? EOF : result;
}

int fclose(FILE *stream) {
  REAL(fclose);
  int file = fileno(stream);
  int flags = file < 0 ? O_RDONLY : fcntl(file, F_GETFL);
  int failed = (flags & O_ACCMODE) != O_RDONLY && fails('w', file, NULL);
  int reason = errno, result = real(stream);
  if (failed) errno = reason;
  return failed ? EOF : result;
}

/* Other calls */

#define SYNC(name) \
  int name(int file) { \
    REAL(name); \
    return fails('s', file, NULL) ? -1 : real(file); \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *old, const char *new) {
  REAL(rename);
  if (fails('r', AT_FDCWD, new)) return -1;
  int result = real(old, new);
  if (!result) keep(AT_FDCWD, new);
  return result;
}

int renameat(int old_folder, const char *old, int folder, const char *new) {
  REAL(renameat);
  if (fails('r', folder, new)) return -1;
  int result = real(old_folder, old, folder, new);
  if (!result) keep(folder, new);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return fails('m', AT_FDCWD, path) ? -1 : real(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode) {
  REAL(mkdirat);
  return fails('m', folder, path) ? -1 : real(folder, path, mode);
}

int unlink(const char *path) {
  REAL(unlink);
  return fails('u', AT_FDCWD, path) ? -1 : real(path);
}

int unlinkat(int folder, const char *path, int flags) {
  REAL(unlinkat);
  return fails('u', folder, path) ? -1 : real(folder, path, flags);
}

int rmdir(const char *path) {
  REAL(rmdir);
  return fails('u', AT_FDCWD, path) ? -1 : real(path);
}

int remove(const char *path) {
  REAL(remove);
  return fails('u', AT_FDCWD, path) ? -1 : real(path);
}

int flock(int file, int operation) {
  REAL(flock);
  return fails('l', file, NULL) ? -1 : real(file, operation);
}
