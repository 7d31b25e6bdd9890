/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * DPDK's longest-prefix-match tables as contestants of benches/peers/run.sh.
 *
 *     lookup TABLE DIRECTORY [EAL OPTIONS]     TABLE: fib4 fib4-scalar lpm4 fib6 fib6-scalar lpm6
 *
 * DIRECTORY holds what our own contestant exported: routes4.txt or routes6.txt (`PREFIX/LEN ID`), updates4.txt or
 * updates6.txt, and addresses as raw arrays in v4.WORKLOAD (32 bits, host order) and v6.WORKLOAD (16 bytes each).
 *
 * Speaks one line at a time with the driver, so that it can measure all contestants in turn:
 *     (start)                      ->  ready ROUTES BUILD_MS MEMORY_MB LOOKUP_MB   the last without the RIB
 *     look WORKLOAD PASSES BATCH   ->  look MLPS CHECKSUM     the checksum adds id + 1 of each address that has a route
 *     update COUNT                 ->  update NS_EACH         the next COUNT of the updates
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>
#include <rte_malloc.h>

#define MOST_BATCH 256
/* Second-level groups: about as many as the real tables need. */
#define TBL8_V4 256
#define TBL8_FIB6 320000
#define TBL8_LPM6 (1 << 17)
#define NO_ROUTE 32767 /* the greatest next hop of 2-byte entries; our ids are below */

struct change {
	uint8_t addr[16]; /* IPv4: the first four bytes, host order */
	uint32_t id;
	uint8_t len;
	char what; /* A or W */
};

static int v6, is_lpm;
static struct rte_fib *fib4;
static struct rte_lpm *lpm4;
static struct rte_fib6 *fib6;
static struct rte_lpm6 *lpm6;

static void die(const char *what)
{
	fprintf(stderr, "lookup: %s\n", what);
	exit(1);
}

/* Processor time of this thread: what else runs on the machine shall not count. */
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double memory_mb(void)
{
	struct rte_malloc_socket_stats stats;
	double sum = 0;
	for (int socket = 0; socket < RTE_MAX_NUMA_NODES; socket++)
		if (rte_malloc_get_socket_stats(socket, &stats) == 0)
			sum += stats.heap_allocsz_bytes;
	return sum / 1e6;
}

/* Reads `PREFIX/LEN ID`, `A PREFIX/LEN ID` and `W PREFIX/LEN` lines. */
static struct change *read_changes(const char *dir, const char *name, size_t *count)
{
	char path[4096], line[256];
	snprintf(path, sizeof(path), "%s/%s%c.txt", dir, name, v6 ? '6' : '4');
	FILE *file = fopen(path, "r");
	if (!file)
		die(path);
	struct change *all = NULL;
	size_t room = 0;
	for (*count = 0; fgets(line, sizeof(line), file); ++*count) {
		if (*count == room) {
			room = room ? 2 * room : 1 << 16;
			all = realloc(all, room * sizeof(*all));
		}
		struct change *c = &all[*count];
		char *word = line;
		memset(c, 0, sizeof(*c));
		c->what = 'A';
		if (line[1] == ' ') {
			c->what = line[0];
			word += 2;
		}
		char *slash = strchr(word, '/');
		if (!slash)
			die(line);
		*slash = 0;
		if (inet_pton(v6 ? AF_INET6 : AF_INET, word, c->addr) != 1)
			die(word);
		if (!v6)
			*(uint32_t *)c->addr = ntohl(*(uint32_t *)c->addr);
		char *rest;
		c->len = strtoul(slash + 1, &rest, 10);
		c->id = strtoul(rest, NULL, 10);
	}
	fclose(file);
	return all;
}

static int apply(struct change *c)
{
	uint32_t ip = *(uint32_t *)c->addr;
	int add = c->what == 'A';
	if (fib4)
		return add ? rte_fib_add(fib4, ip, c->len, c->id) : rte_fib_delete(fib4, ip, c->len);
	if (lpm4)
		return add ? rte_lpm_add(lpm4, ip, c->len, c->id) : rte_lpm_delete(lpm4, ip, c->len);
	if (fib6)
		return add ? rte_fib6_add(fib6, c->addr, c->len, c->id) : rte_fib6_delete(fib6, c->addr, c->len);
	return add ? rte_lpm6_add(lpm6, c->addr, c->len, c->id) : rte_lpm6_delete(lpm6, c->addr, c->len);
}

static void create(const char *table)
{
	int scalar = strstr(table, "scalar") != NULL;
	if (!is_lpm && !v6) {
		struct rte_fib_conf conf = { .type = RTE_FIB_DIR24_8, .default_nh = NO_ROUTE, .max_routes = 1 << 21,
			.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = TBL8_V4 } };
		fib4 = rte_fib_create("fib4", SOCKET_ID_ANY, &conf);
		enum rte_fib_lookup_type best = RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512;
		if (fib4 && rte_fib_select_lookup(fib4, scalar ? RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO : best))
			die("this processor or this DPDK has no such lookup function");
	} else if (is_lpm && !v6) {
		struct rte_lpm_config conf = { .max_rules = 1 << 21, .number_tbl8s = TBL8_V4 };
		lpm4 = rte_lpm_create("lpm4", SOCKET_ID_ANY, &conf);
	} else if (!is_lpm) {
		struct rte_fib6_conf conf = { .type = RTE_FIB6_TRIE, .default_nh = NO_ROUTE, .max_routes = 1 << 20,
			.trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = TBL8_FIB6 } };
		fib6 = rte_fib6_create("fib6", SOCKET_ID_ANY, &conf);
		enum rte_fib6_lookup_type best = RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512;
		if (fib6 && rte_fib6_select_lookup(fib6, scalar ? RTE_FIB6_LOOKUP_TRIE_SCALAR : best))
			die("this processor or this DPDK has no such lookup function");
	} else {
		struct rte_lpm6_config conf = { .max_rules = 1 << 20, .number_tbl8s = TBL8_LPM6 };
		lpm6 = rte_lpm6_create("lpm6", SOCKET_ID_ANY, &conf);
	}
	if (!fib4 && !lpm4 && !fib6 && !lpm6)
		die("the table cannot be made: too little memory?");
}

static void *addresses[16];
static char names[16][32];
static size_t counts[16];

static int workload(const char *dir, const char *name)
{
	int at = 0;
	for (; at < 15 && addresses[at]; at++)
		if (!strcmp(names[at], name))
			return at;
	char path[4096];
	snprintf(path, sizeof(path), "%s/v%c.%s", dir, v6 ? '6' : '4', name);
	FILE *file = fopen(path, "rb");
	if (!file)
		die(path);
	fseek(file, 0, SEEK_END);
	size_t bytes = ftell(file);
	rewind(file);
	addresses[at] = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (fread(addresses[at], 1, bytes, file) != bytes)
		die(path);
	fclose(file);
	snprintf(names[at], sizeof(names[at]), "%s", name);
	counts[at] = bytes / (v6 ? 16 : 4);
	return at;
}

/* One pass over all addresses; the sum, when asked for, is taken outside of what is measured. */
static __rte_always_inline uint64_t pass(int at, unsigned batch, int sum)
{
	uint64_t total = 0, wide[MOST_BATCH];
	uint32_t narrow[MOST_BATCH];
	uint32_t *v4 = addresses[at];
	uint8_t (*ips)[16] = addresses[at];
	for (size_t from = 0; from + batch <= counts[at]; from += batch) {
		if (fib4)
			rte_fib_lookup_bulk(fib4, v4 + from, wide, batch);
		else if (lpm4)
			rte_lpm_lookup_bulk(lpm4, v4 + from, narrow, batch);
		else if (fib6)
			rte_fib6_lookup_bulk(fib6, ips + from, wide, batch);
		else
			rte_lpm6_lookup_bulk_func(lpm6, ips + from, (int32_t *)narrow, batch);
		__asm__ volatile("" ::"r"(wide), "r"(narrow) : "memory");
		for (unsigned i = 0; sum && i < batch; i++) {
			if (fib4 || fib6)
				total += wide[i] == NO_ROUTE ? 0 : wide[i] + 1;
			else if (lpm4)
				total += narrow[i] & RTE_LPM_LOOKUP_SUCCESS ? (narrow[i] & 0xffffff) + 1 : 0;
			else
				total += (int32_t)narrow[i] < 0 ? 0 : narrow[i] + 1;
		}
	}
	return total;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		die("lookup TABLE DIRECTORY [EAL OPTIONS]");
	const char *table = argv[1], *dir = argv[2];
	argv[2] = argv[0];
	if (rte_eal_init(argc - 2, argv + 2) < 0)
		die("DPDK does not start");
	v6 = strchr(table, '6') != NULL;
	is_lpm = !strncmp(table, "lpm", 3);

	size_t routes, updates, next = 0;
	struct change *route = read_changes(dir, "routes", &routes);
	struct change *update = read_changes(dir, "updates", &updates);
	double before = memory_mb(), start = now();
	create(table);
	for (size_t at = 0; at < routes; at++) {
		int error = apply(&route[at]);
		if (error) {
			fprintf(stderr, "lookup: route %zu of %zu is refused: %s\n", at, routes, strerror(-error));
			exit(1);
		}
	}
	double first = (double)(1 << 24) * (fib4 ? 2 : 4);
	double lookup = first + 256.0 * (fib4 ? 2 * TBL8_V4 : lpm4 ? 4 * TBL8_V4 : fib6 ? 4 * TBL8_FIB6 : 4 * TBL8_LPM6);
	printf("ready %zu %.1f %.1f %.1f\n", routes, (now() - start) * 1e3, memory_mb() - before, lookup / 1e6);
	fflush(stdout);

	char line[256], name[32];
	unsigned passes, batch;
	size_t count;
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "look %31s %u %u", name, &passes, &batch) == 3 && batch <= MOST_BATCH) {
			int at = workload(dir, name);
			uint64_t sum = pass(at, batch, 1);
			start = now();
			for (unsigned i = 0; i < passes; i++)
				pass(at, batch, 0);
			double each = (now() - start) / passes;
			printf("look %.2f %llu\n", counts[at] / batch * batch / each / 1e6, (unsigned long long)sum);
		} else if (sscanf(line, "update %zu", &count) == 1) {
			size_t made = 0;
			start = now();
			for (; made < count && next < updates; made++, next++)
				apply(&update[next]); /* a withdrawal of a route that is not there is an error to DPDK only */
			printf("update %.1f\n", made ? (now() - start) * 1e9 / made : 0.0);
		} else {
			die(line);
		}
		fflush(stdout);
	}
	return 0;
}
