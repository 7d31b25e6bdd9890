// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client's connection to a running router: by its control socket, or by a channel of its deployment.

use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use icc::Stream;

/// A connection to a router.
pub enum Connection {
    /// By a control socket.
    Socket(UnixStream),
    /// By a channel.
    Channel(Box<Stream>),
}

impl Connection {
    /// Lets a read wait so long.
    ///
    /// # Errors
    /// The socket does not take the time.
    pub fn set_read_timeout(&mut self, limit: Duration) -> Result<()> {
        match self {
            Connection::Socket(socket) => socket.set_read_timeout(Some(limit)),
            Connection::Channel(stream) => {
                stream.set_patience(limit);
                Ok(())
            }
        }
    }
}

impl From<UnixStream> for Connection {
    fn from(socket: UnixStream) -> Connection {
        Connection::Socket(socket)
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Connection::Socket(socket) => socket.read(into),
            Connection::Channel(stream) => stream.read(into),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Connection::Socket(socket) => socket.write(bytes),
            Connection::Channel(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
