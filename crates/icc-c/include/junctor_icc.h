/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Inter-core communication of Junctor. Made by cbindgen from crates/icc-c/src/lib.rs: change that, then run its tests with JUNCTOR_BLESS=1. */

#ifndef JUNCTOR_ICC_H
#define JUNCTOR_ICC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 The version of this interface. It changes when a program compiled for another one would not work.
 */
#define JUNCTOR_ICC_ABI 1

/*
 Why something was not done.
 */
typedef enum {
  /*
   There is nothing to receive, or nothing has been published yet.
   */
  JUNCTOR_ICC_ERROR_EMPTY = -1,
  /*
   The channel is full: nothing was sent.
   */
  JUNCTOR_ICC_ERROR_FULL = -2,
  /*
   The message or block is too long for the endpoint, or the scalar too large for its width.
   */
  JUNCTOR_ICC_ERROR_TOO_LONG = -3,
  /*
   The buffer is too short for the message, which stays in the channel.
   */
  JUNCTOR_ICC_ERROR_TOO_SHORT = -4,
  /*
   The other side has damaged the channel. Free this end and attach again after a reset.
   */
  JUNCTOR_ICC_ERROR_BROKEN = -5,
  /*
   The endpoint was made anew or its node has ended. Free this end and attach again.
   */
  JUNCTOR_ICC_ERROR_GIVEN_UP = -6,
  /*
   The counters or the block were overwritten while they were read, each time that it was tried.
   */
  JUNCTOR_ICC_ERROR_OVERTAKEN = -7,
  /*
   An argument is NULL or not text.
   */
  JUNCTOR_ICC_ERROR_ARGUMENT = -8,
  /*
   The kernel refused.
   */
  JUNCTOR_ICC_ERROR_SYSTEM = -9,
} JunctorIccError;

/*
 A reader of blocks.
 */
typedef struct JunctorIccBlockReader JunctorIccBlockReader;

/*
 The writer of blocks.
 */
typedef struct JunctorIccBlockWriter JunctorIccBlockWriter;

/*
 A reader of a block of counters.
 */
typedef struct JunctorIccCounterReader JunctorIccCounterReader;

/*
 The writer of a block of counters.
 */
typedef struct JunctorIccCounterWriter JunctorIccCounterWriter;

/*
 A domain: a connection to the node that serves it, or a file.
 */
typedef struct JunctorIccNode JunctorIccNode;

/*
 The receiving end of a packet channel.
 */
typedef struct JunctorIccPacketReceiver JunctorIccPacketReceiver;

/*
 The sending end of a packet channel.
 */
typedef struct JunctorIccPacketSender JunctorIccPacketSender;

/*
 The receiving end of a channel of messages.
 */
typedef struct JunctorIccReceiver JunctorIccReceiver;

/*
 The receiving end of a channel of scalars.
 */
typedef struct JunctorIccScalarReceiver JunctorIccScalarReceiver;

/*
 The sending end of a channel of scalars.
 */
typedef struct JunctorIccScalarSender JunctorIccScalarSender;

/*
 The sending end of a channel of messages.
 */
typedef struct JunctorIccSender JunctorIccSender;

/*
 What goes with a packet.
 */
typedef struct {
  /*
   When it came, in nanoseconds since the epoch; 0: unknown.
   */
  uint64_t timestamp_ns;
  /*
   0 for this host, 1 broadcast, 2 multicast, 3 for another host, 4 sent by this host, 5 looped back.
   */
  uint8_t kind;
  /*
   A mark of the user's.
   */
  uint8_t paint;
} JunctorIccNote;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of the library, to be compared with `JUNCTOR_ICC_ABI`.
 */
uint32_t junctor_icc_abi(void);

/*
 Why the last function of this thread failed, in words. Valid until the next one fails.
 */
const char *junctor_icc_error(void);

/*
 Connects to the domain that is served at a path ("@NAME" for a name without a file), as node `node`. Domain 0 stands for any.

 # Safety
 `path` is text that ends with a zero.
 */
JunctorIccNode *junctor_icc_connect(const char *path,
                                    uint32_t domain,
                                    uint32_t node);

/*
 Uses a connected socket that a parent process handed down, and owns it from now on.

 # Safety
 `fd` is open, and nothing else closes it.
 */
JunctorIccNode *junctor_icc_from_fd(int fd, uint32_t domain, uint32_t node);

/*
 Opens a region in the first `bytes` bytes of a file, such as `/dev/mmapper` in a guest.

 # Safety
 `path` is text that ends with a zero.
 */
JunctorIccNode *junctor_icc_open_file(const char *path, size_t bytes);

/*
 Whether the node that serves the domain still runs; always so for a file.

 # Safety
 `node` is a handle or NULL.
 */
bool junctor_icc_is_served(JunctorIccNode *node);

/*
 Attaches as the sender of messages at an endpoint, given by name or number.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccSender *junctor_icc_sender(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_sender_free(JunctorIccSender *end);

/*
 Attaches as the receiver of messages.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccReceiver *junctor_icc_receiver(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_receiver_free(JunctorIccReceiver *end);

/*
 Attaches as the sender of scalars.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccScalarSender *junctor_icc_scalar_sender(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_scalar_sender_free(JunctorIccScalarSender *end);

/*
 Attaches as the receiver of scalars.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccScalarReceiver *junctor_icc_scalar_receiver(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_scalar_receiver_free(JunctorIccScalarReceiver *end);

/*
 Attaches as the writer of counters.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccCounterWriter *junctor_icc_counter_writer(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_counter_writer_free(JunctorIccCounterWriter *end);

/*
 Attaches as a reader of counters.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccCounterReader *junctor_icc_counter_reader(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_counter_reader_free(JunctorIccCounterReader *end);

/*
 Closes the connection once all its ends are freed. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_node_free(JunctorIccNode *node);

/*
 Sends a message. Returns 0 or an error.

 # Safety
 `sender` is a handle or NULL; `message` points to `bytes` bytes.
 */
int junctor_icc_send(JunctorIccSender *sender, const uint8_t *message, size_t bytes);

/*
 How many messages were refused for want of room so far.

 # Safety
 `sender` is a handle or NULL.
 */
uint64_t junctor_icc_refused(JunctorIccSender *sender);

/*
 Copies the next message to `buffer`. Returns its length or an error, which is `Empty` if there is none.

 # Safety
 `receiver` is a handle or NULL; `buffer` has room for `room` bytes.
 */
int64_t junctor_icc_receive(JunctorIccReceiver *receiver, uint8_t *buffer, size_t room);

/*
 Sleeps until something is there (1), or the other side comes or goes or the time is over (0), or an error. A negative time has no end.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_wait(JunctorIccReceiver *receiver,
                     int64_t milliseconds);

/*
 For event loops: says that this end will sleep. Returns 1 if it may, and `junctor_icc_fd` becomes readable when something comes; 0 if
 something is there already.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_announce(JunctorIccReceiver *receiver);

/*
 An epoll descriptor to sleep on; `epoll_wait` on it takes the wake-up back. -1 for a file, where nothing can ring. It belongs to the handle.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_fd(JunctorIccReceiver *receiver);

/*
 Sends a scalar. Returns 0 or an error.

 # Safety
 `sender` is a handle or NULL.
 */
int junctor_icc_scalar_send(JunctorIccScalarSender *sender, uint64_t value);

/*
 Takes the next scalar. Returns 0 or an error, which is `Empty` if there is none.

 # Safety
 `receiver` is a handle or NULL; `value` has room for one number.
 */
int junctor_icc_scalar_receive(JunctorIccScalarReceiver *receiver, uint64_t *value);

/*
 As `junctor_icc_wait`, for scalars.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_scalar_wait(JunctorIccScalarReceiver *receiver, int64_t milliseconds);

/*
 Publishes `count` counters at once. Returns 0 or an error.

 # Safety
 `writer` is a handle or NULL; `counters` points to `count` numbers.
 */
int junctor_icc_publish(JunctorIccCounterWriter *writer, const uint64_t *counters, size_t count);

/*
 Copies the newest counters, at most `room` of them. Returns how many there are, which may be more, or an error, which is `Empty` if none were
 published yet. `number`, unless it is NULL, gets the number of the publication.

 # Safety
 `reader` is a handle or NULL; `counters` has room for `room` numbers; `number` for one, or is NULL.
 */
int64_t junctor_icc_read_counters(JunctorIccCounterReader *reader,
                                  uint64_t *counters,
                                  size_t room,
                                  uint64_t *number);

/*
 Attaches as the writer of blocks.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccBlockWriter *junctor_icc_block_writer(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_block_writer_free(JunctorIccBlockWriter *end);

/*
 Attaches as a reader of blocks.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccBlockReader *junctor_icc_block_reader(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_block_reader_free(JunctorIccBlockReader *end);

/*
 Publishes a block, which replaces the one before. Returns 0 or an error.

 # Safety
 `writer` is a handle or NULL; `block` points to `bytes` bytes.
 */
int junctor_icc_block_publish(JunctorIccBlockWriter *writer, const uint8_t *block, size_t bytes);

/*
 Copies the newest block, at most `room` bytes of it. Returns its length, which may be more, or an error, which is `Empty` if none was
 published yet. `number`, unless it is NULL, gets the number of the block.

 # Safety
 `reader` is a handle or NULL; `buffer` has room for `room` bytes; `number` for one number, or is NULL.
 */
int64_t junctor_icc_block_read(JunctorIccBlockReader *reader,
                               uint8_t *buffer,
                               size_t room,
                               uint64_t *number);

/*
 Whether somebody writes at present. What a writer leaves can still be read.

 # Safety
 `reader` is a handle or NULL.
 */
bool junctor_icc_block_is_written(JunctorIccBlockReader *reader);

/*
 Attaches as the sender of packets, which a router receives by FromPlane.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccPacketSender *junctor_icc_packet_sender(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_packet_sender_free(JunctorIccPacketSender *end);

/*
 Attaches as the receiver of packets, which a router sends by ToPlane.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccPacketReceiver *junctor_icc_packet_receiver(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_packet_receiver_free(JunctorIccPacketReceiver *end);

/*
 Sends a copy of a packet. `note` may be NULL. Returns 0 or an error.

 # Safety
 `sender` is a handle or NULL; `packet` points to `bytes` bytes; `note` to a note, or is NULL.
 */
int junctor_icc_packet_send(JunctorIccPacketSender *sender,
                            const uint8_t *packet,
                            size_t bytes,
                            const JunctorIccNote *note);

/*
 Whether somebody receives at present.

 # Safety
 `sender` is a handle or NULL.
 */
bool junctor_icc_packet_is_received(JunctorIccPacketSender *sender);

/*
 Copies the next packet to `buffer`, and what goes with it to `note` unless that is NULL. Returns its length or an error, which is `Empty` if there
 is none.

 # Safety
 `receiver` is a handle or NULL; `buffer` has room for `room` bytes, and `note` for one note, or is NULL.
 */
int64_t junctor_icc_packet_receive(JunctorIccPacketReceiver *receiver,
                                   uint8_t *buffer,
                                   size_t room,
                                   JunctorIccNote *note);

/*
 How many packets could not be had so far, because the sender described them wrongly or its memory has gone.

 # Safety
 `receiver` is a handle or NULL.
 */
uint64_t junctor_icc_packet_lost(JunctorIccPacketReceiver *receiver);

/*
 As `junctor_icc_wait`, for packets.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_packet_wait(JunctorIccPacketReceiver *receiver, int64_t milliseconds);

/*
 As `junctor_icc_announce`, for packets.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_packet_announce(JunctorIccPacketReceiver *receiver);

/*
 As `junctor_icc_fd`, for packets.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_packet_fd(JunctorIccPacketReceiver *receiver);

/*
 Attaches as the writer of blocks.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccBlockWriter *junctor_icc_block_writer(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_block_writer_free(JunctorIccBlockWriter *end);

/*
 Attaches as a reader of blocks.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccBlockReader *junctor_icc_block_reader(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_block_reader_free(JunctorIccBlockReader *end);

/*
 Publishes a block, which replaces the one before. Returns 0 or an error.

 # Safety
 `writer` is a handle or NULL; `block` points to `bytes` bytes.
 */
int junctor_icc_block_publish(JunctorIccBlockWriter *writer, const uint8_t *block, size_t bytes);

/*
 Copies the newest block, at most `room` bytes of it. Returns its length, which may be more, or an error, which is `Empty` if none was
 published yet. `number`, unless it is NULL, gets the number of the block.

 # Safety
 `reader` is a handle or NULL; `buffer` has room for `room` bytes; `number` for one number, or is NULL.
 */
int64_t junctor_icc_block_read(JunctorIccBlockReader *reader,
                               uint8_t *buffer,
                               size_t room,
                               uint64_t *number);

/*
 Whether somebody writes at present. What a writer leaves can still be read.

 # Safety
 `reader` is a handle or NULL.
 */
bool junctor_icc_block_is_written(JunctorIccBlockReader *reader);

/*
 Attaches as the sender of packets, which a router receives by FromPlane.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccPacketSender *junctor_icc_packet_sender(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_packet_sender_free(JunctorIccPacketSender *end);

/*
 Attaches as the receiver of packets, which a router sends by ToPlane.

 # Safety
 `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
 */
JunctorIccPacketReceiver *junctor_icc_packet_receiver(JunctorIccNode *node, const char *endpoint);

/*
 Gives the seat back and frees the handle. NULL is allowed.

 # Safety
 It is a handle that nobody uses any more, or NULL.
 */
void junctor_icc_packet_receiver_free(JunctorIccPacketReceiver *end);

/*
 Sends a copy of a packet. `note` may be NULL. Returns 0 or an error.

 # Safety
 `sender` is a handle or NULL; `packet` points to `bytes` bytes; `note` to a note, or is NULL.
 */
int junctor_icc_packet_send(JunctorIccPacketSender *sender,
                            const uint8_t *packet,
                            size_t bytes,
                            const JunctorIccNote *note);

/*
 Whether somebody receives at present.

 # Safety
 `sender` is a handle or NULL.
 */
bool junctor_icc_packet_is_received(JunctorIccPacketSender *sender);

/*
 Copies the next packet to `buffer`, and what goes with it to `note` unless that is NULL. Returns its length or an error, which is `Empty` if there
 is none.

 # Safety
 `receiver` is a handle or NULL; `buffer` has room for `room` bytes, and `note` for one note, or is NULL.
 */
int64_t junctor_icc_packet_receive(JunctorIccPacketReceiver *receiver,
                                   uint8_t *buffer,
                                   size_t room,
                                   JunctorIccNote *note);

/*
 How many packets could not be had so far, because the sender described them wrongly or its memory has gone.

 # Safety
 `receiver` is a handle or NULL.
 */
uint64_t junctor_icc_packet_lost(JunctorIccPacketReceiver *receiver);

/*
 As `junctor_icc_wait`, for packets.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_packet_wait(JunctorIccPacketReceiver *receiver, int64_t milliseconds);

/*
 As `junctor_icc_announce`, for packets.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_packet_announce(JunctorIccPacketReceiver *receiver);

/*
 As `junctor_icc_fd`, for packets.

 # Safety
 `receiver` is a handle or NULL.
 */
int junctor_icc_packet_fd(JunctorIccPacketReceiver *receiver);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* JUNCTOR_ICC_H */
