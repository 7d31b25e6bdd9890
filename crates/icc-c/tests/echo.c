/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sends each message back, with a scalar for its length and a count of all, until an empty one comes. Used by tests/c_and_python.rs. */
#include "junctor_icc.h"
#include <stdio.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, junctor_icc_error());
    return 1;
}

/* Packets with their notes, marked by another paint. */
static int packets(JunctorIccNode *node) {
    JunctorIccPacketReceiver *frames = junctor_icc_packet_receiver(node, "frames");
    JunctorIccPacketSender *answers = junctor_icc_packet_sender(node, "answers");
    if (!frames || !answers) return failed("attach to packets");
    if (!junctor_icc_packet_is_received(answers)) return failed("nobody receives");
    uint8_t packet[2048];
    JunctorIccNote note;
    for (int left = 3; left > 0;) {
        int64_t length = junctor_icc_packet_receive(frames, packet, sizeof packet, &note);
        if (length == JUNCTOR_ICC_ERROR_EMPTY) {
            if (junctor_icc_packet_wait(frames, 60000) < 0) return failed("wait for packets");
            continue;
        }
        if (length < 0) return failed("receive a packet");
        note.paint ^= 255;
        if (junctor_icc_packet_send(answers, packet, (size_t)length, &note)) return failed("send a packet");
        left -= 1;
    }
    if (junctor_icc_packet_lost(frames)) return failed("packets were lost");
    if (junctor_icc_packet_receive(frames, NULL, 1, NULL) != JUNCTOR_ICC_ERROR_ARGUMENT) return failed("NULL");
    junctor_icc_packet_receiver_free(frames);
    junctor_icc_packet_sender_free(answers);
    return 0;
}

/* Publishes the block that it reads, reversed. */
static int blocks(JunctorIccNode *node) {
    JunctorIccBlockReader *load = junctor_icc_block_reader(node, "load");
    JunctorIccBlockWriter *copy = junctor_icc_block_writer(node, "copy");
    if (!load || !copy) return failed("attach to blocks");
    if (!junctor_icc_block_is_written(load)) return failed("nobody writes");
    uint8_t block[6001], reversed[6001];
    uint64_t number = 0;
    if (junctor_icc_block_read(load, block, 3, &number) != 5003 || number != 2) return failed("read with little room");
    int64_t length = junctor_icc_block_read(load, block, sizeof block, NULL);
    if (length < 0) return failed("read a block");
    for (int64_t at = 0; at < length; at++) reversed[at] = block[length - 1 - at];
    if (junctor_icc_block_publish(copy, reversed, 6001) != JUNCTOR_ICC_ERROR_TOO_LONG) return failed("too long");
    if (junctor_icc_block_publish(copy, reversed, (size_t)length)) return failed("publish a block");
    if (junctor_icc_block_read(load, NULL, 1, NULL) != JUNCTOR_ICC_ERROR_ARGUMENT) return failed("NULL");
    junctor_icc_block_reader_free(load);
    junctor_icc_block_writer_free(copy);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2 || junctor_icc_abi() != JUNCTOR_ICC_ABI) return failed("usage");
    JunctorIccNode *node = junctor_icc_connect(argv[1], 7, 2);
    if (!node) return failed("connect");
    if (junctor_icc_sender(node, "nothing")) return failed("an endpoint that is not there");
    JunctorIccReceiver *there = junctor_icc_receiver(node, "there");
    JunctorIccSender *back = junctor_icc_sender(node, "back");
    JunctorIccScalarSender *lengths = junctor_icc_scalar_sender(node, "lengths");
    JunctorIccCounterWriter *counts = junctor_icc_counter_writer(node, "counts");
    if (!there || !back || !lengths || !counts) return failed("attach");
    uint8_t message[256];
    uint64_t totals[2] = {0, 0};
    for (;;) {
        int64_t length = junctor_icc_receive(there, message, sizeof message);
        if (length == JUNCTOR_ICC_ERROR_EMPTY) {
            if (junctor_icc_wait(there, 60000) < 0) return failed("wait");
            continue;
        }
        if (length < 0) return failed("receive");
        totals[0] += 1;
        totals[1] += (uint64_t)length;
        if (junctor_icc_publish(counts, totals, 2)) return failed("publish");
        if (junctor_icc_scalar_send(lengths, (uint64_t)length)) return failed("scalar");
        if (junctor_icc_send(back, message, (size_t)length)) return failed("send");
        if (length == 0) break;
    }
    if (packets(node) || blocks(node)) return 1;
    if (junctor_icc_send(NULL, message, 1) != JUNCTOR_ICC_ERROR_ARGUMENT) return failed("NULL");
    junctor_icc_receiver_free(there);
    junctor_icc_sender_free(back);
    junctor_icc_scalar_sender_free(lengths);
    junctor_icc_counter_writer_free(counts);
    junctor_icc_node_free(node);
    return 0;
}
