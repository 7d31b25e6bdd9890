// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface of Junctor's inter-core communication, for control planes in other languages.
//!
//! A handle belongs to one thread at a time. Functions that give a handle return NULL on failure, and others a negative number of
//! `JunctorIccError`; `junctor_icc_error` then says why in words. Nothing here waits for a peer, except the functions named `wait`.

#![allow(unsafe_code, reason = "a C interface")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

mod blocks;
mod packets;

pub use blocks::*;
pub use packets::*;

use icc::{AttachError, ChannelError, CounterReader, CounterWriter, FileRegion, Node, NodeId};

/// The version of this interface. It changes when a program compiled for another one would not work.
pub const JUNCTOR_ICC_ABI: u32 = 1;

/// Why something was not done.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JunctorIccError {
    /// There is nothing to receive, or nothing has been published yet.
    Empty = -1,
    /// The channel is full: nothing was sent.
    Full = -2,
    /// The message or block is too long for the endpoint, or the scalar too large for its width.
    TooLong = -3,
    /// The buffer is too short for the message, which stays in the channel.
    TooShort = -4,
    /// The other side has damaged the channel. Free this end and attach again after a reset.
    Broken = -5,
    /// The endpoint was made anew or its node has ended. Free this end and attach again.
    GivenUp = -6,
    /// The counters or the block were overwritten while they were read, each time that it was tried.
    Overtaken = -7,
    /// An argument is NULL or not text.
    Argument = -8,
    /// The kernel refused.
    System = -9,
}

/// A domain: a connection to the node that serves it, or a file.
pub struct JunctorIccNode(Way);
/// The sending end of a channel of messages.
pub struct JunctorIccSender(icc::Sender);
/// The receiving end of a channel of messages.
pub struct JunctorIccReceiver(icc::Receiver);
/// The sending end of a channel of scalars.
pub struct JunctorIccScalarSender(icc::ScalarSender);
/// The receiving end of a channel of scalars.
pub struct JunctorIccScalarReceiver(icc::ScalarReceiver);
/// The writer of a block of counters.
pub struct JunctorIccCounterWriter(CounterWriter);
/// A reader of a block of counters.
pub struct JunctorIccCounterReader(CounterReader, Vec<u64>);

enum Way {
    Socket(Node),
    File(FileRegion),
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Notes why something failed.
fn note(why: impl Display) {
    let text = CString::new(why.to_string().replace('\0', " ")).unwrap_or_default();
    ERROR.with(|error| *error.borrow_mut() = text);
}

fn code(why: ChannelError) -> c_int {
    note(why);
    let error = match why {
        ChannelError::Nothing => JunctorIccError::Empty,
        ChannelError::Full => JunctorIccError::Full,
        ChannelError::TooLong { .. } | ChannelError::TooLarge { .. } => JunctorIccError::TooLong,
        ChannelError::TooShort { .. } => JunctorIccError::TooShort,
        ChannelError::Broken => JunctorIccError::Broken,
        ChannelError::GivenUp => JunctorIccError::GivenUp,
        ChannelError::Overtaken(_) => JunctorIccError::Overtaken,
        _ => JunctorIccError::System,
    };
    error as c_int
}

fn argument() -> c_int {
    note("an argument is NULL or not text");
    JunctorIccError::Argument as c_int
}

/// What a pointer points to, if it is not NULL.
///
/// # Safety
/// It is NULL or came from the function that makes such a handle, was not freed, and no other thread uses it meanwhile.
unsafe fn handle<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: by contract.
    unsafe { pointer.as_mut() }
}

/// # Safety
/// It is NULL or points to text that ends with a zero and stays until this returns.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

fn give<T>(made: Result<T, impl Display>) -> *mut T {
    match made {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(why) => {
            note(why);
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// As for [`handle`], and nobody uses it afterwards.
unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: by contract it came from `give`, and this is the only time that it comes back.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// The version of the library, to be compared with `JUNCTOR_ICC_ABI`.
#[unsafe(no_mangle)]
pub extern "C" fn junctor_icc_abi() -> u32 {
    JUNCTOR_ICC_ABI
}

/// Why the last function of this thread failed, in words. Valid until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn junctor_icc_error() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}

/// Connects to the domain that is served at a path ("@NAME" for a name without a file), as node `node`. Domain 0 stands for any.
///
/// # Safety
/// `path` is text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_connect(
    path: *const c_char,
    domain: u32,
    node: u32,
) -> *mut JunctorIccNode {
    // SAFETY: by contract.
    let path = unsafe { text(path) }.unwrap_or_default();
    give(Node::connect(path, NodeId::new(domain, node)).map(|node| JunctorIccNode(Way::Socket(node))))
}

/// Uses a connected socket that a parent process handed down, and owns it from now on.
///
/// # Safety
/// `fd` is open, and nothing else closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_from_fd(fd: c_int, domain: u32, node: u32) -> *mut JunctorIccNode {
    if fd < 0 {
        argument();
        return std::ptr::null_mut();
    }
    // SAFETY: by contract.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    give(Ok::<_, AttachError>(JunctorIccNode(Way::Socket(Node::over(socket, NodeId::new(domain, node))))))
}

/// Opens a region in the first `bytes` bytes of a file, such as `/dev/mmapper` in a guest.
///
/// # Safety
/// `path` is text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_open_file(path: *const c_char, bytes: usize) -> *mut JunctorIccNode {
    // SAFETY: by contract.
    let path = unsafe { text(path) }.unwrap_or_default();
    give(FileRegion::open(path, bytes).map(|file| JunctorIccNode(Way::File(file))))
}

/// Whether the node that serves the domain still runs; always so for a file.
///
/// # Safety
/// `node` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_is_served(node: *mut JunctorIccNode) -> bool {
    // SAFETY: by contract.
    match unsafe { handle(node) } {
        Some(JunctorIccNode(Way::Socket(node))) => node.is_served(),
        Some(JunctorIccNode(Way::File(_))) => true,
        None => false,
    }
}

/// Attaches by a node's socket or file.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
unsafe fn attach<T>(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
    end: impl FnOnce(&Way, &str) -> Result<T, AttachError>,
) -> *mut T {
    // SAFETY: by contract.
    let (Some(node), Some(endpoint)) = (unsafe { handle(node) }, unsafe { text(endpoint) }) else {
        argument();
        return std::ptr::null_mut();
    };
    give(end(&node.0, endpoint))
}

/// Attaches as the sender of messages at an endpoint, given by name or number.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_sender(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccSender {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.sender(endpoint).map(JunctorIccSender),
        Way::File(file) => file.sender(endpoint).map(JunctorIccSender),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_sender_free(end: *mut JunctorIccSender) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Attaches as the receiver of messages.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_receiver(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccReceiver {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.receiver(endpoint).map(JunctorIccReceiver),
        Way::File(file) => file.receiver(endpoint).map(JunctorIccReceiver),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_receiver_free(end: *mut JunctorIccReceiver) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Attaches as the sender of scalars.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_scalar_sender(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccScalarSender {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.scalar_sender(endpoint).map(JunctorIccScalarSender),
        Way::File(file) => file.scalar_sender(endpoint).map(JunctorIccScalarSender),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_scalar_sender_free(end: *mut JunctorIccScalarSender) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Attaches as the receiver of scalars.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_scalar_receiver(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccScalarReceiver {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.scalar_receiver(endpoint).map(JunctorIccScalarReceiver),
        Way::File(file) => file.scalar_receiver(endpoint).map(JunctorIccScalarReceiver),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_scalar_receiver_free(end: *mut JunctorIccScalarReceiver) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Attaches as the writer of counters.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_counter_writer(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccCounterWriter {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.counter_writer(endpoint).map(JunctorIccCounterWriter),
        Way::File(file) => file.counter_writer(endpoint).map(JunctorIccCounterWriter),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_counter_writer_free(end: *mut JunctorIccCounterWriter) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Attaches as a reader of counters.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_counter_reader(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccCounterReader {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => {
            node.counter_reader(endpoint).map(|end| JunctorIccCounterReader(end, Vec::new()))
        }
        Way::File(file) => file.counter_reader(endpoint).map(|end| JunctorIccCounterReader(end, Vec::new())),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_counter_reader_free(end: *mut JunctorIccCounterReader) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Closes the connection once all its ends are freed. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_node_free(node: *mut JunctorIccNode) {
    // SAFETY: by contract.
    unsafe { free(node) };
}

/// Sends a message. Returns 0 or an error.
///
/// # Safety
/// `sender` is a handle or NULL; `message` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_send(
    sender: *mut JunctorIccSender,
    message: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: by contract.
    let Some(sender) = (unsafe { handle(sender) }) else { return argument() };
    if bytes > 0 && message.is_null() {
        return argument();
    }
    let message = match bytes {
        0 => &[],
        // SAFETY: by contract, and not NULL.
        _ => unsafe { std::slice::from_raw_parts(message, bytes) },
    };
    sender.0.send(message).map_or_else(code, |()| 0)
}

/// How many messages were refused for want of room so far.
///
/// # Safety
/// `sender` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_refused(sender: *mut JunctorIccSender) -> u64 {
    // SAFETY: by contract.
    unsafe { handle(sender) }.map_or(0, |sender| sender.0.refused())
}

/// Copies the next message to `buffer`. Returns its length or an error, which is `Empty` if there is none.
///
/// # Safety
/// `receiver` is a handle or NULL; `buffer` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_receive(
    receiver: *mut JunctorIccReceiver,
    buffer: *mut u8,
    room: usize,
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
        Ok(Some(bytes)) => bytes as i64,
        Ok(None) => JunctorIccError::Empty as i64,
        Err(why) => code(why).into(),
    }
}

/// Sleeps until something is there (1), or the other side comes or goes or the time is over (0), or an error. A negative time has no end.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_wait(receiver: *mut JunctorIccReceiver, milliseconds: i64) -> c_int {
    // SAFETY: by contract.
    let Some(receiver) = (unsafe { handle(receiver) }) else { return argument() };
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    receiver.0.wait(limit).map_or_else(code, c_int::from)
}

/// For event loops: says that this end will sleep. Returns 1 if it may, and `junctor_icc_fd` becomes readable when something comes; 0 if
/// something is there already.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_announce(receiver: *mut JunctorIccReceiver) -> c_int {
    // SAFETY: by contract.
    let Some(receiver) = (unsafe { handle(receiver) }) else { return argument() };
    receiver.0.announce().map_or_else(code, c_int::from)
}

/// An epoll descriptor to sleep on; `epoll_wait` on it takes the wake-up back. -1 for a file, where nothing can ring. It belongs to the handle.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_fd(receiver: *mut JunctorIccReceiver) -> c_int {
    // SAFETY: by contract.
    let receiver = unsafe { handle(receiver) };
    receiver.and_then(|receiver| receiver.0.fd()).map_or(-1, |fd| fd.as_raw_fd())
}

/// Sends a scalar. Returns 0 or an error.
///
/// # Safety
/// `sender` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_scalar_send(sender: *mut JunctorIccScalarSender, value: u64) -> c_int {
    // SAFETY: by contract.
    let Some(sender) = (unsafe { handle(sender) }) else { return argument() };
    sender.0.send(value).map_or_else(code, |()| 0)
}

/// Takes the next scalar. Returns 0 or an error, which is `Empty` if there is none.
///
/// # Safety
/// `receiver` is a handle or NULL; `value` has room for one number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_scalar_receive(
    receiver: *mut JunctorIccScalarReceiver,
    value: *mut u64,
) -> c_int {
    // SAFETY: by contract.
    let (Some(receiver), Some(value)) = (unsafe { handle(receiver) }, unsafe { handle(value) }) else {
        return argument();
    };
    match receiver.0.receive() {
        Ok(Some(received)) => {
            *value = received;
            0
        }
        Ok(None) => JunctorIccError::Empty as c_int,
        Err(why) => code(why),
    }
}

/// As `junctor_icc_wait`, for scalars.
///
/// # Safety
/// `receiver` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_scalar_wait(
    receiver: *mut JunctorIccScalarReceiver,
    milliseconds: i64,
) -> c_int {
    // SAFETY: by contract.
    let Some(receiver) = (unsafe { handle(receiver) }) else { return argument() };
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    receiver.0.wait(limit).map_or_else(code, c_int::from)
}

/// Publishes `count` counters at once. Returns 0 or an error.
///
/// # Safety
/// `writer` is a handle or NULL; `counters` points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_publish(
    writer: *mut JunctorIccCounterWriter,
    counters: *const u64,
    count: usize,
) -> c_int {
    // SAFETY: by contract.
    let Some(writer) = (unsafe { handle(writer) }) else { return argument() };
    if counters.is_null() {
        return argument();
    }
    // SAFETY: by contract, and not NULL.
    let counters = unsafe { std::slice::from_raw_parts(counters, count) };
    writer.0.publish(counters).map_or_else(code, |()| 0)
}

/// Copies the newest counters, at most `room` of them. Returns how many there are, which may be more, or an error, which is `Empty` if none were
/// published yet. `number`, unless it is NULL, gets the number of the publication.
///
/// # Safety
/// `reader` is a handle or NULL; `counters` has room for `room` numbers; `number` for one, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_read_counters(
    reader: *mut JunctorIccCounterReader,
    counters: *mut u64,
    room: usize,
    number: *mut u64,
) -> i64 {
    // SAFETY: by contract.
    let Some(JunctorIccCounterReader(reader, copy)) = (unsafe { handle(reader) }) else {
        return argument().into();
    };
    if counters.is_null() {
        return argument().into();
    }
    match reader.read(copy) {
        Ok(newest) => {
            // SAFETY: by contract.
            if let Some(number) = unsafe { handle(number) } {
                *number = newest;
            }
            // SAFETY: by contract there is room for `room`, and the vector has as many as are copied; it is this library's own.
            unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), counters, copy.len().min(room)) };
            copy.len() as i64
        }
        Err(why) => code(why).into(),
    }
}
