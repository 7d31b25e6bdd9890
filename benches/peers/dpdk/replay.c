/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A port for DPDK's l3fwd whose packets go round in memory: what is sent comes back as received, by DPDK's own ring
 * driver. The Makefile compiles this into l3fwd, which calls the two functions at its start.
 *
 *     REPLAY_ADDRESSES   file of destinations, 32 bits each, host order
 *     REPLAY_PACKETS     how many packets go round
 *     REPLAY_MACSWAP     if set, packets only have their addresses swapped: what the driver and the loop cost
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_eth_ring.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_launch.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

#define MOST (1 << 16)
#define FRAME 60

void replay_port(void);
void replay_fill(void);

static struct rte_ring *ring;

/* Makes the port, which becomes number 0. */
void replay_port(void)
{
	ring = rte_ring_create("replay", MOST, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	if (!ring || rte_eth_from_ring(ring) != 0)
		rte_exit(EXIT_FAILURE, "no replay port\n");
}

static void frame(struct rte_mbuf *m, uint32_t destination, unsigned number)
{
	uint8_t *bytes = (uint8_t *)rte_pktmbuf_append(m, FRAME);
	memset(bytes, 0, FRAME);
	struct rte_ether_hdr *ether = (void *)bytes;
	ether->src_addr.addr_bytes[5] = 1;
	ether->dst_addr.addr_bytes[5] = 2;
	ether->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
	struct rte_ipv4_hdr *ip = (void *)(ether + 1);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = rte_cpu_to_be_16(FRAME - sizeof(*ether));
	ip->time_to_live = 64; /* l3fwd sends at any TTL, so that going round needs no mending */
	ip->next_proto_id = IPPROTO_UDP;
	ip->src_addr = rte_cpu_to_be_32(RTE_IPV4(192, 0, 2, 1));
	ip->dst_addr = rte_cpu_to_be_32(destination);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	struct rte_udp_hdr *udp = (void *)(ip + 1);
	udp->src_port = rte_cpu_to_be_16(1024 + number % 1024);
	udp->dst_port = rte_cpu_to_be_16(9);
	udp->dgram_len = rte_cpu_to_be_16(FRAME - sizeof(*ether) - sizeof(*ip));
	m->packet_type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4; /* as a card would say */
}

static void macswap(void)
{
	struct rte_mbuf *packets[32];
	for (;;) {
		uint16_t count = rte_eth_rx_burst(0, 0, packets, 32);
		for (uint16_t i = 0; i < count; i++) {
			struct rte_ether_hdr *ether = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
			struct rte_ether_addr address = ether->dst_addr;
			ether->dst_addr = ether->src_addr;
			ether->src_addr = address;
		}
		uint16_t sent = rte_eth_tx_burst(0, 0, packets, count);
		if (sent < count)
			rte_exit(EXIT_FAILURE, "the replay ring is full\n");
	}
}

/* Puts the packets in. */
void replay_fill(void)
{
	const char *path = getenv("REPLAY_ADDRESSES"), *packets = getenv("REPLAY_PACKETS");
	unsigned count = packets ? atoi(packets) : 1024;
	if (count == 0 || count >= MOST)
		rte_exit(EXIT_FAILURE, "REPLAY_PACKETS: from 1 to %d\n", MOST - 1);
	struct rte_mempool *pool = rte_pktmbuf_pool_create("replay", count, 0, 0, RTE_PKTMBUF_HEADROOM + 128, SOCKET_ID_ANY);
	uint32_t *addresses = calloc(count, sizeof(*addresses));
	FILE *file = path ? fopen(path, "rb") : NULL;
	if (!pool || !file || fread(addresses, sizeof(*addresses), count, file) != count)
		rte_exit(EXIT_FAILURE, "REPLAY_ADDRESSES: too few, or no memory for the packets\n");
	fclose(file);
	for (unsigned i = 0; i < count; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		frame(m, addresses[i], i);
		if (rte_ring_enqueue(ring, m))
			rte_exit(EXIT_FAILURE, "the replay ring is full\n");
	}
	free(addresses);
	if (getenv("REPLAY_MACSWAP"))
		macswap();
}
