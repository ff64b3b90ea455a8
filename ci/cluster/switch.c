/* An Ethernet switch in user space with an exact model of its links.
 *
 *     switch RATE LATENCY SOCKET GROUP TAPER PID...      (bits per second, 0: no limit; nanoseconds; ports, 0: no groups)
 *
 * In the network namespace of every PID it makes the TAP device eth0, port i with the address 02:00:00:00:00:i, and
 * carries frames between them until SIGTERM. With the program the devices go, too.
 *
 * The model. A port has a link out and a link in, both of the given rate and independent of each other. A frame of
 * B bytes occupies the sender's link out for B/rate, its head reaches the receiver LATENCY later, waits there
 * until the link in is free, in the order of arrival of heads, and occupies that for B/rate, too; then it is
 * delivered. On an idle path it thus takes LATENCY + B/rate. There is no bucket: nothing, however short,
 * passes faster than the line. Nothing is dropped; a queue at a link in only grows.
 *
 * With GROUP, ports 0 to GROUP-1 are a group, the next GROUP another, and so on. A group has a link up and a link down, each as fast as
 * the links of its ports together, divided by TAPER. The head of a frame to another group reaches its own group's link up when it leaves
 * the sender, waits until that is free, in the order of arrival, and occupies it for as long as the frame takes there; LATENCY
 * later it comes to the other group's link down, and then to the receiver's link in, likewise. A frame is delivered when the slowest of these
 * links lets its end through.
 *
 * Frames keep the form in which the kernel hands them over (virtio header, segments not cut, checksums not made), so
 * the cost per byte is two copies. A port is read only when its link out is about to be free: what waits, waits in
 * the sender's kernel, as with a network card, and TCP feels it.
 *
 * When a frame has left its sender no other sender's head can come before its own (they all take LATENCY), so its way
 * through the link in is settled then: only what is to be read or delivered wakes this program up. What has left by now has
 * come to its link up, and what comes to a link down or in within LATENCY from now is known: in this order they are settled.
 *
 * A frame is late when it was delivered, or taken from a sender whose link was idle and that was waiting, more than
 * LATE after its time. Then the processors were the limit and not the links. A connection to SOCKET gets one line
 * with the counts so far.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    PORTS = 250,
    FIRST_PID = 6,          /* of the arguments */
    VIRTIO = 10,            /* bytes of struct virtio_net_hdr */
    ETHERNET = 14,          /* bytes of an Ethernet header */
    LARGEST = 1 << 17,      /* bytes of the longest frame, with its virtio header */
    BURST = 4,              /* frames taken from one port before others have a look */
};
static const uint64_t LATE = 200000;   /* ns */
static const uint64_t EARLY = 30000;   /* ns before its link is free that a port is read again */
static const uint64_t SOON = 8000;     /* ns that are not worth a timer */
static const uint64_t NEVER = UINT64_MAX;

struct frame {
    uint64_t when, number;  /* of the next event: by number where times are equal */
    uint64_t end;           /* when the links between groups let its end through */
    int from, to, length;   /* with the virtio header */
    unsigned char data[];
};

/* Events, the earliest first. */
struct heap {
    struct frame **first;
    size_t waiting, room;
};

struct port {
    int tap, listened;      /* whether epoll watches it */
    uint64_t out_free, in_free, wake;
};

struct group {
    uint64_t up_free, down_free;
};

static struct port port[PORTS];
static struct group group[PORTS];
static int ports, watcher, group_ports;
static uint64_t latency;
static double per_byte;     /* ns */
static double taper;

static struct heap ups, downs;   /* heads arrive at the link up, the link down of a group */
static struct heap heads;        /* heads arrive at the link in */
static struct heap deliveries;

static struct {
    uint64_t frames, bytes, late, late_sum, late_most, lost;
} count;

static volatile sig_atomic_t ended;

static void on_signal(int number) { (void)number; ended = 1; }

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *text, ...)
{
    int error = errno;
    va_list rest;
    va_start(rest, text);
    fputs("switch: ", stderr);
    vfprintf(stderr, text, rest);
    fprintf(stderr, ": %s\n", strerror(error));
    exit(1);
}

static void *must(void *memory)
{
    if (!memory) die("memory");
    return memory;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* --- events, the earliest first ----------------------------------------------------------------------------- */

static int before(const struct frame *a, const struct frame *b)
{
    return a->when != b->when ? a->when < b->when : a->number < b->number;
}

static void push(struct heap *h, struct frame *f)
{
    if (h->waiting == h->room) {
        h->room = h->room ? 2 * h->room : 1024;
        h->first = must(realloc(h->first, h->room * sizeof *h->first));
    }
    size_t i = h->waiting++;
    for (; i > 0 && before(f, h->first[(i - 1) / 2]); i = (i - 1) / 2) h->first[i] = h->first[(i - 1) / 2];
    h->first[i] = f;
}

static struct frame *pop(struct heap *h)
{
    struct frame *popped = h->first[0], *last = h->first[--h->waiting];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < h->waiting) {
        child += child + 1 < h->waiting && before(h->first[child + 1], h->first[child]);
        if (!before(h->first[child], last)) break;
        h->first[i] = h->first[child];
        i = child;
    }
    if (h->waiting) h->first[i] = last;
    return popped;
}

/* When the next of them happens. */
static uint64_t next_of(const struct heap *h) { return h->waiting ? h->first[0]->when : NEVER; }

/* --- the links ---------------------------------------------------------------------------------------------- */

static uint64_t duration(int length) { return (uint64_t)((length - VIRTIO) * per_byte); }

static int group_of(int i) { return group_ports ? i / group_ports : 0; }

/* How long a frame holds a link of this group: the last one may have fewer ports. */
static uint64_t group_duration(int g, int length)
{
    int left = ports - g * group_ports, members = left < group_ports ? left : group_ports;
    return (uint64_t)((length - VIRTIO) * per_byte * taper / members);
}

/* Frames that have come to a link up by `at`, and to a link down by then and LATENCY, go on to the next one. */
static void settle_groups(uint64_t at)
{
    while (next_of(&ups) <= at) {
        struct frame *f = pop(&ups);
        int g = group_of(f->from);
        uint64_t begins = later(f->when, group[g].up_free);
        group[g].up_free = begins + group_duration(g, f->length);
        f->end = group[g].up_free + latency;
        f->when = begins + latency;
        push(&downs, f);
    }
    while (next_of(&downs) <= at + latency) {
        struct frame *f = pop(&downs);
        int g = group_of(f->to);
        f->when = later(f->when, group[g].down_free);
        group[g].down_free = f->when + group_duration(g, f->length);
        f->end = later(f->end, group[g].down_free);
        push(&heads, f);
    }
}

static void note_late(uint64_t by)
{
    if (by > LATE) count.late++;
    count.late_sum += by;
    count.late_most = later(count.late_most, by);
}

/* Gives their time of delivery to the frames that have left their senders by `at`. */
static void settle(uint64_t at)
{
    settle_groups(at);
    while (next_of(&heads) <= at + latency) {
        struct frame *f = pop(&heads);
        struct port *to = &port[f->to];
        f->when = to->in_free = later(later(f->when, to->in_free) + duration(f->length), f->end);
        push(&deliveries, f);
    }
}

static void deliver(uint64_t at)
{
    struct frame *f = pop(&deliveries);
    note_late(at - f->when);
    count.frames++;
    count.bytes += (uint64_t)(f->length - VIRTIO);
    if (write(port[f->to].tap, f->data, (size_t)f->length) != f->length) count.lost++;
    free(f);
}

static void send_to(int from, int to, uint64_t start, const unsigned char *data, int length)
{
    static uint64_t number;
    struct frame *f = must(malloc(sizeof *f + (size_t)length));
    int crosses = group_of(from) != group_of(to);
    *f = (struct frame){ .when = crosses ? start : start + latency, .number = number++, .from = from, .to = to, .length = length };
    memcpy(f->data, data, (size_t)length);
    push(crosses ? &ups : &heads, f);
}

/* A frame leaves port `from`; its link out is taken from `start` on. */
static void forward(int from, uint64_t start, const unsigned char *data, int length)
{
    const unsigned char *address = data + VIRTIO;
    int broadcast = address[0] & 1;
    int to = address[0] == 2 && address[5] < ports ? address[5] : -1;
    port[from].out_free = start + duration(length);
    if (!broadcast && (to < 0 || to == from)) count.lost++;
    if (!broadcast && to >= 0 && to != from) send_to(from, to, start, data, length);
    for (int i = 0; broadcast && i < ports; i++)
        if (i != from) send_to(from, i, start, data, length);
}

static void watch(int i, int on)
{
    struct epoll_event e = { .events = on ? EPOLLIN : 0, .data.u32 = (uint32_t)i };
    if (epoll_ctl(watcher, EPOLL_CTL_MOD, port[i].tap, &e)) die("epoll_ctl");
    port[i].listened = on;
}

/* Takes what port `i` has to send. `queued`: it may have waited for its link out. */
static void take(int i, int queued)
{
    static unsigned char data[LARGEST];
    struct port *p = &port[i];
    for (int n = 0; n < BURST; n++) {
        uint64_t at = now();
        if (p->out_free > at + EARLY) break;
        ssize_t length = read(p->tap, data, sizeof data);
        if (length < VIRTIO + ETHERNET) break;
        if (queued && at > p->out_free + LATE) note_late(at - p->out_free);
        forward(i, later(at, p->out_free), data, (int)length);
        queued = 1;
    }
    if (p->out_free > now() + EARLY) {
        p->wake = p->out_free - EARLY;
        watch(i, 0);
    }
}

/* --- the rest ----------------------------------------------------------------------------------------------- */

static int tap_in(const char *pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/ns/net", pid);
    int space = open(path, O_RDONLY | O_CLOEXEC), header = VIRTIO;
    if (space < 0 || setns(space, CLONE_NEWNET)) die("%s", path);
    close(space);
    int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tap < 0) die("/dev/net/tun (is the module tun there?)");
    struct ifreq request = { .ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
    if (ioctl(tap, TUNSETIFF, &request)) die("making eth0 for process %s", pid);
    if (ioctl(tap, TUNSETVNETHDRSZ, &header)) die("TUNSETVNETHDRSZ");
    if (ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)) die("TUNSETOFFLOAD");
    return tap;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address.sun_path) { errno = ENAMETOOLONG; die("%s", path); }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 8)) die("%s", path);
    return fd;
}

static void tell(int listener)
{
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer < 0) return;
    char line[256];
    int length = snprintf(line, sizeof line,
        "{\"frames\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"late\": %" PRIu64 ", \"late_ns\": %" PRIu64
        ", \"most_ns\": %" PRIu64 ", \"lost\": %" PRIu64 "}\n",
        count.frames, count.bytes, count.late, count.late_sum, count.late_most, count.lost);
    if (send(peer, line, (size_t)length, MSG_NOSIGNAL) < 0) fprintf(stderr, "switch: a reader has gone\n");
    close(peer);
}

/* When something is to be done without a frame coming in. */
static uint64_t next_time(uint64_t at)
{
    uint64_t next = NEVER;
    for (int i = 0; i < ports; i++) {
        if (port[i].listened) continue;
        if (port[i].wake <= at) {
            watch(i, 1);
            take(i, 1);
        }
        if (!port[i].listened && port[i].wake < next) next = port[i].wake;
    }
    settle(at);
    if (next_of(&deliveries) < next) next = next_of(&deliveries);
    /* Not settled: it has still to leave, and cannot be delivered before its head is there. */
    if (ups.waiting && next_of(&ups) + latency < next) next = next_of(&ups) + latency;
    if (next_of(&downs) < next) next = next_of(&downs);
    return next_of(&heads) < next ? next_of(&heads) : next;
}

static void serve(int listener)
{
    struct epoll_event events[64];
    while (!ended) {
        uint64_t at = now();
        settle(at);
        while (next_of(&deliveries) <= at) {
            deliver(at);
            at = now();
        }
        uint64_t next = next_time(at), rest = next > at + SOON ? next - at : 0;
        struct timespec time = { .tv_sec = (time_t)(rest / 1000000000u), .tv_nsec = (long)(rest % 1000000000u) };
        int n = epoll_pwait2(watcher, events, 64, next == NEVER ? NULL : &time, NULL);
        if (n < 0 && errno != EINTR) die("epoll_pwait2");
        for (int k = 0; k < n; k++) {
            int i = (int)events[k].data.u32;
            if (i == ports) tell(listener);
            else if (port[i].listened) take(i, 0);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < FIRST_PID + 1 || argc - FIRST_PID > PORTS) {
        fprintf(stderr, "usage: switch RATE LATENCY SOCKET GROUP TAPER PID... (1 to %d of them)\n", PORTS);
        return 2;
    }
    double rate = atof(argv[1]);
    per_byte = rate > 0 ? 8e9 / rate : 0;
    latency = strtoull(argv[2], NULL, 10);
    ports = argc - FIRST_PID;
    group_ports = atoi(argv[4]);
    taper = atof(argv[5]);
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int listener = listen_at(argv[3]);
    watcher = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i <= ports; i++) {
        struct epoll_event e = { .events = EPOLLIN, .data.u32 = (uint32_t)i };
        int fd = i == ports ? listener : (port[i].tap = tap_in(argv[FIRST_PID + i]));
        if (epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
        port[i].listened = 1;
    }
    /* A deadline missed by the switch would look like a slow link. */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    if (mlockall(MCL_CURRENT)) perror("switch: mlockall");
    struct sched_param priority = { .sched_priority = 20 };
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) perror("switch: SCHED_FIFO");
    puts("ready");
    fflush(stdout);
    serve(listener);
    return 0;
}
