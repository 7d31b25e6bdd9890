// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet channels.

use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::{JunctorIccError, JunctorIccNode, Way, argument, attach, code, free, handle};

/// What goes with a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JunctorIccNote {
    /// When it came, in nanoseconds since the epoch; 0: unknown.
    pub timestamp_ns: u64,
    /// 0 for this host, 1 broadcast, 2 multicast, 3 for another host, 4 sent by this host, 5 looped back.
    pub kind: u8,
    /// A mark of the user's.
    pub paint: u8,
}

/// The sending end of a packet channel.
pub struct JunctorIccPacketSender(icc::PacketSender);
/// The receiving end of a packet channel.
pub struct JunctorIccPacketReceiver(icc::PacketReceiver);

/// Attaches as the sender of packets, which a router receives by FromPlane.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_sender(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccPacketSender {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.packet_sender(endpoint).map(JunctorIccPacketSender),
        Way::File(file) => file.packet_sender(endpoint).map(JunctorIccPacketSender),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_sender_free(end: *mut JunctorIccPacketSender) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Attaches as the receiver of packets, which a router sends by ToPlane.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_receiver(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccPacketReceiver {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.packet_receiver(endpoint).map(JunctorIccPacketReceiver),
        Way::File(file) => file.packet_receiver(endpoint).map(JunctorIccPacketReceiver),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_receiver_free(end: *mut JunctorIccPacketReceiver) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Sends a copy of a packet. `note` may be NULL. Returns 0 or an error.
///
/// # Safety
/// `sender` is a handle or NULL; `packet` points to `bytes` bytes; `note` to a note, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_send(
    sender: *mut JunctorIccPacketSender,
    packet: *const u8,
    bytes: usize,
    note: *const JunctorIccNote,
) -> c_int {
    // SAFETY: by contract.
    let Some(sender) = (unsafe { handle(sender) }) else { return argument() };
    if bytes > 0 && packet.is_null() {
        return argument();
    }
    let packet = match bytes {
        0 => &[],
        // SAFETY: by contract, and not NULL.
        _ => unsafe { std::slice::from_raw_parts(packet, bytes) },
    };
    // SAFETY: by contract.
    let JunctorIccNote { timestamp_ns, kind, paint } = unsafe { note.as_ref() }.copied().unwrap_or_default();
    sender.0.send(packet, icc::Note { timestamp_ns, kind, paint }).map_or_else(code, |()| 0)
}

/// Whether somebody receives at present.
///
/// # Safety
/// `sender` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_is_received(sender: *mut JunctorIccPacketSender) -> bool {
    // SAFETY: by contract.
    unsafe { handle(sender) }.is_some_and(|sender| sender.0.peer().present)
}

/// Copies the next packet to `buffer`, and what goes with it to `note` unless that is NULL. Returns its length or an error, which is `Empty` if there
/// is none.
///
/// # Safety
/// `receiver` is a handle or NULL; `buffer` has room for `room` bytes, and `note` for one note, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_receive(
    receiver: *mut JunctorIccPacketReceiver,
    buffer: *mut u8,
    room: usize,
    note: *mut JunctorIccNote,
) -> i64 {
    // SAFETY: by contract.
    let Some(receiver) = (unsafe { handle(receiver) }) else { return argument().into() };
    if room > 0 && buffer.is_null() {
        return argument().into();
    }
    let buffer = match room {
        0 => &mut [],
        // SAFETY: by contract, and not NULL. C gives no bytes that are not initialised a meaning, and they are only written to.
        _ => unsafe { std::slice::from_raw_parts_mut(buffer, room) },
    };
    match receiver.0.receive(buffer) {
        Ok(Some((bytes, icc::Note { timestamp_ns, kind, paint }))) => {
            // SAFETY: by contract.
            if let Some(note) = unsafe { handle(note) } {
                *note = JunctorIccNote { timestamp_ns, kind, paint };
            }
            bytes as i64
        }
        Ok(None) => JunctorIccError::Empty as i64,
        Err(why) => code(why).into(),
    }
}

/// How many packets could not be had so far, because the sender described them wrongly or its memory has gone.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_lost(receiver: *mut JunctorIccPacketReceiver) -> u64 {
    // SAFETY: by contract.
    unsafe { handle(receiver) }.map_or(0, |receiver| receiver.0.lost())
}

/// As `junctor_icc_wait`, for packets.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_wait(
    receiver: *mut JunctorIccPacketReceiver,
    milliseconds: i64,
) -> c_int {
    // SAFETY: by contract.
    let Some(receiver) = (unsafe { handle(receiver) }) else { return argument() };
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    receiver.0.wait(limit).map_or_else(code, c_int::from)
}

/// As `junctor_icc_announce`, for packets.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_announce(receiver: *mut JunctorIccPacketReceiver) -> c_int {
    // SAFETY: by contract.
    let Some(receiver) = (unsafe { handle(receiver) }) else { return argument() };
    receiver.0.announce().map_or_else(code, c_int::from)
}

/// As `junctor_icc_fd`, for packets.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_packet_fd(receiver: *mut JunctorIccPacketReceiver) -> c_int {
    // SAFETY: by contract.
    let receiver = unsafe { handle(receiver) };
    receiver.and_then(|receiver| receiver.0.fd()).map_or(-1, |fd| fd.as_raw_fd())
}
