// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements over files share: messages and outputs.

use std::fs::File;
use std::io::{self, Write};

use element::{Cx, Element, HandlerError, Rehearsed};
use packet::Packet;
use sync::os::reason;

/// A file to be written, or standard output, behind a buffer of our own.
///
/// Standard output is written out after every batch, so that what several elements print stays in order.
pub struct Output {
    file: Option<File>,
    buffer: Vec<u8>,
    unbuffered: bool,
}

impl Output {
    const CAPACITY: usize = 1 << 16;

    /// Creates a file, or empties it; `-` is standard output.
    ///
    /// # Errors
    /// The file's name and what the operating system says.
    pub fn create(path: &str, unbuffered: bool) -> Result<Output, String> {
        let file = match path {
            "-" => None,
            _ => Some(
                sync::private::create(std::path::Path::new(path))
                    .map_err(|e| format!("{path}: {}", reason(&e)))?,
            ),
        };
        Ok(Output { unbuffered: unbuffered || file.is_none(), file, buffer: Vec::new() })
    }

    /// Where to put what is to be written; say [`Output::wrote`] afterwards.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes out what has gathered, if it is time.
    ///
    /// # Errors
    /// The operating system's; what could not be written is lost.
    pub fn wrote(&mut self) -> io::Result<()> {
        if self.unbuffered || self.buffer.len() >= Self::CAPACITY { self.flush() } else { Ok(()) }
    }

    /// Writes out everything.
    ///
    /// # Errors
    /// As [`Output::wrote`].
    pub fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let done = match &mut self.file {
            Some(file) => file.write_all(&self.buffer),
            None => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&self.buffer).and_then(|()| stdout.flush())
            }
        };
        self.buffer.clear();
        done
    }
}

/// The name of a file that an element writes packets to, for what it says about it.
#[derive(Default)]
pub struct Target {
    pub name: String,
    failed: bool,
}

impl Target {
    /// Says once that the file cannot be written.
    pub fn check(&mut self, cx: &Cx<'_>, done: io::Result<()>) {
        if let Err(e) = done
            && !std::mem::replace(&mut self.failed, true)
        {
            cx.print(&format!("{}: {}: {}", cx.name(), self.name, reason(&e)));
        }
    }

    /// What a handler answers that was to write.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn answer(&self, done: io::Result<()>) -> Result<(), HandlerError> {
        done.map_err(|e| HandlerError::failed(format!("{}: {}", self.name, reason(&e))))
    }

    /// What would become of a packet.
    pub fn rehearse(&self, cx: &Cx<'_>, packet: Packet) -> Rehearsed {
        if cx.noutputs() > 0 {
            Rehearsed::passes(packet)
        } else {
            Rehearsed::Leaves(format!("it would be written to {}", self.name))
        }
    }
}

/// Fetches a burst for an element, which takes it as if it was pushed. Returns whether there was any.
pub fn fetch(element: &mut impl Element, cx: &mut Cx<'_>) -> bool {
    let batch = cx.pull(0, cx.burst());
    let any = !batch.is_empty();
    if any {
        element.push(cx, 0, batch);
    }
    any
}
