// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks.

use std::ffi::{c_char, c_int};

use crate::{JunctorIccNode, Way, argument, attach, code, free, handle};

/// The writer of blocks.
pub struct JunctorIccBlockWriter(icc::BlockWriter);
/// A reader of blocks.
pub struct JunctorIccBlockReader(icc::BlockReader, Vec<u8>);

/// Attaches as the writer of blocks.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_block_writer(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccBlockWriter {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.block_writer(endpoint).map(JunctorIccBlockWriter),
        Way::File(file) => file.block_writer(endpoint).map(JunctorIccBlockWriter),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_block_writer_free(end: *mut JunctorIccBlockWriter) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Attaches as a reader of blocks.
///
/// # Safety
/// `node` is a handle, and `endpoint` text that ends with a zero; or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_block_reader(
    node: *mut JunctorIccNode,
    endpoint: *const c_char,
) -> *mut JunctorIccBlockReader {
    let end = |way: &Way, endpoint: &str| match way {
        Way::Socket(node) => node.block_reader(endpoint).map(|end| JunctorIccBlockReader(end, Vec::new())),
        Way::File(file) => file.block_reader(endpoint).map(|end| JunctorIccBlockReader(end, Vec::new())),
    };
    // SAFETY: by contract.
    unsafe { attach(node, endpoint, end) }
}

/// Gives the seat back and frees the handle. NULL is allowed.
///
/// # Safety
/// It is a handle that nobody uses any more, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_block_reader_free(end: *mut JunctorIccBlockReader) {
    // SAFETY: by contract.
    unsafe { free(end) };
}

/// Publishes a block, which replaces the one before. Returns 0 or an error.
///
/// # Safety
/// `writer` is a handle or NULL; `block` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_block_publish(
    writer: *mut JunctorIccBlockWriter,
    block: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: by contract.
    let Some(writer) = (unsafe { handle(writer) }) else { return argument() };
    if bytes > 0 && block.is_null() {
        return argument();
    }
    let block = match bytes {
        0 => &[],
        // SAFETY: by contract, and not NULL.
        _ => unsafe { std::slice::from_raw_parts(block, bytes) },
    };
    writer.0.publish(block).map_or_else(code, |()| 0)
}

/// Copies the newest block, at most `room` bytes of it. Returns its length, which may be more, or an error, which is `Empty` if none was
/// published yet. `number`, unless it is NULL, gets the number of the block.
///
/// # Safety
/// `reader` is a handle or NULL; `buffer` has room for `room` bytes; `number` for one number, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_block_read(
    reader: *mut JunctorIccBlockReader,
    buffer: *mut u8,
    room: usize,
    number: *mut u64,
) -> i64 {
    // SAFETY: by contract.
    let Some(JunctorIccBlockReader(reader, copy)) = (unsafe { handle(reader) }) else {
        return argument().into();
    };
    if room > 0 && buffer.is_null() {
        return argument().into();
    }
    match reader.read(copy) {
        Ok(newest) => {
            // SAFETY: by contract.
            if let Some(number) = unsafe { handle(number) } {
                *number = newest;
            }
            if room > 0 {
                // SAFETY: by contract there is room for `room`, and the vector has as many as are copied; it is this library's own.
                unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), buffer, copy.len().min(room)) };
            }
            copy.len() as i64
        }
        Err(why) => code(why).into(),
    }
}

/// Whether somebody writes at present. What a writer leaves can still be read.
///
/// # Safety
/// `reader` is a handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn junctor_icc_block_is_written(reader: *mut JunctorIccBlockReader) -> bool {
    // SAFETY: by contract.
    unsafe { handle(reader) }.is_some_and(|reader| reader.0.writer().present)
}
