// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet memory: frames, packets, batches and the traits of a port.
//!
//! * [`Memory`] is the one region of frames that the process has. Devices map it (an AF_XDP UMEM is this very
//!   region), so a packet goes from port to port without a copy.
//! * [`Packet`] owns one frame, or shares its bytes with clones until somebody writes.
//! * [`Batch`] is what elements exchange: a small vector of packets that recycles its own storage.
//! * [`filter`] runs the packet filters that are written as for tcpdump.
//! * [`ipv4`] reads and checks the headers of many packets together.
//! * [`glance`](mod@glance) looks at packets that a stuck thread has in its hands.
//! * [`port`] holds the traits between the elements that do input and output and the crate that knows devices.
//!
//! A packet's bytes are always contiguous. Frames come in two sizes, ordinary (2 KiB unless configured) and jumbo
//! (16 KiB); a device that delivers a jumbo frame in pieces joins them at its port. So no element ever meets a chain,
//! at the price of one copy per jumbo frame on such devices.

mod batch;
pub mod filter;
pub mod ipv4;
mod memory;
mod packet;
mod pool;
pub mod port;

pub use batch::Batch;
pub use memory::{Config, Memory, MemoryError, Pages, Usage, memory};
pub use packet::{ANNO_SIZE, Facts, HEADROOM, Packet, PacketType, anno, followed, glance};

/// Tests count frames of the one memory, so they take turns, each in a thread whose cache is gone before the next.
#[cfg(test)]
pub(crate) fn alone(test: impl FnOnce() + Send) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    std::thread::scope(|s| s.spawn(test).join().unwrap());
}
